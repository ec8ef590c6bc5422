"""A site's model for other programs, as a program of torch or ONNX that needs no PACE."""

from pace.export.folder import KINDS, export_model

__all__ = ["KINDS", "export_model"]
