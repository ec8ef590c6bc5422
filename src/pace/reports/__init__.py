"""What people look at: one table, pages, and a run as data."""

from pace.reports.document import (
    Beside,
    Block,
    Code,
    Confusion,
    Document,
    Drilldown,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Reliability,
    Section,
    Text,
    render_page,
)
from pace.reports.run_result import NAME, RunResult, RunSettings, bars, distinct, versions
from pace.reports.table import Cell, Column, Table, Value
from pace.reports.trial import KEY, READINGS, SIZES, STEPS, Row, Trial, score_rows, tidy_frame
