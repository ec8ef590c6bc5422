"""A site's own tables: reading CSV and Parquet files, the codebook, and the graph they become.

Other rooms use `codebook`, `dates`, `encode`, `features`, `importing`, `nodes`, `problems`,
`suspicions`, `table` and `tables`.
"""
