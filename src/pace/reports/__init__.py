"""What people look at: a run as data, in a terminal, as a page, as a data frame.

Other rooms use `dataframe`, `run_page`, `run_result`, `stored`, `tables` and `tensorboard`.
"""
