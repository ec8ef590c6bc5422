"""A site's model for others' programs: plain torch, PyTorch Geometric, ONNX. None of them needs PACE.

`network.py` and `network_pyg.py` are not imported here: they are what goes into an exported folder.

Other rooms use `folder`.
"""
