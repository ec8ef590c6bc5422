"""model.json: what a site decided, as a record."""

from dataclasses import replace

import pytest

from pace.io import records
from pace.runtimes.files.outcome import Outcome, ReadingScores
from pace.task import Bin
from tests.export.models import unscored

OUTCOME = unscored(0.5, (0.5, 0.5), 2)


def test_what_is_written_is_read_back() -> None:
    bins = (Bin(3, 2, 0.7),)
    reading = ReadingScores(0.5, 0.4, 0.35, 1.2, ((1, 1), (0, 1)), bins)
    scores = replace(OUTCOME.test, nodes=3, local=reading, external=reading, adopted=reading)
    outcome = replace(OUTCOME, test=scores)
    assert records.read_record(Outcome, records.plain_record(outcome)) == outcome
    assert "new" not in records.plain_record(scores)
    assert records.plain_record(replace(scores, new=0))["new"] == 0


def test_a_score_that_is_no_number_is_named() -> None:
    content = records.plain_record(OUTCOME)
    content["test"]["adopted"]["nll"] = "low"
    with pytest.raises(ValueError, match=r"^test\.adopted\.nll is 'low', expected a number$"):
        records.read_record(Outcome, content)
