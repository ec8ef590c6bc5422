"""The paper's study: what to run, the cells it is stored in, and the tables and figures made of them.

Other rooms use `cell`, `folder`, `outcome`, `page`, `run` and `study`.
"""

from importlib import resources


def content(name: str) -> str:
    """A file of the package: the study's parts, or what the paper says."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
