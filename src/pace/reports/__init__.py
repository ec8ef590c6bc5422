"""What people look at: one table, pages, and a run as data.

Other rooms use the names in `__all__`, and `dataframe`, `run_page`, `run_result`, `stored`, `tables`
and `tensorboard`.
"""

from pace.reports.document import (
    Beside,
    Block,
    Change,
    Changes,
    Choice,
    Code,
    Confusion,
    Document,
    Drilldown,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Mark,
    Matrix,
    Reliability,
    Section,
    Text,
    View,
)
from pace.reports.html import render_page
from pace.reports.table import Cell, Column, Table, Value

__all__ = [
    "Beside",
    "Block",
    "Cell",
    "Change",
    "Changes",
    "Choice",
    "Code",
    "Column",
    "Confusion",
    "Document",
    "Drilldown",
    "Facts",
    "Figure",
    "Finding",
    "Findings",
    "Fold",
    "Mark",
    "Matrix",
    "Reliability",
    "Section",
    "Table",
    "Text",
    "Value",
    "View",
    "render_page",
]
