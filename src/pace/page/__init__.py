"""One self-contained HTML page: what it is made of, and how that is written down."""

from pace.page.document import (
    Block,
    Choice,
    Code,
    Column,
    Document,
    Drilldown,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Matrix,
    Section,
    Table,
    Text,
    Value,
    View,
)
from pace.page.html import page

__all__ = [
    "Block",
    "Choice",
    "Code",
    "Column",
    "Document",
    "Drilldown",
    "Facts",
    "Figure",
    "Finding",
    "Findings",
    "Fold",
    "Matrix",
    "Section",
    "Table",
    "Text",
    "Value",
    "View",
    "page",
]
