"""model.json of this version and of older ones."""

import pytest

from pace.io import records
from pace.runtimes.files.outcome import MaskScores, Outcome, ReadingScores

SCORES = {"accuracy": 0.5, "weighted_f1": 0.4, "macro_f1": 0.3, "nll": 1.2}
VALIDATION = {"mask": "val", "nodes": 4, "local": SCORES, "external": SCORES}


def test_an_older_model_is_read_in_today_s_words() -> None:
    """No weights, no macro F1 over the classes that occur, and `pace` for what was adopted."""
    old = {
        "alpha": 0.25,
        "upload": "ab",
        "return": "cd",
        "validation": VALIDATION | {"pace": SCORES},
    }
    outcome = Outcome.of(old)
    assert outcome.weights == (0.75, 0.25)
    assert (outcome.upload, outcome.returned, outcome.roll) == ("ab", "cd", None)
    assert outcome.validation is not None
    assert outcome.validation.adopted == ReadingScores(0.5, 0.4, 0.3, None, 1.2)
    assert outcome.validation.adopted.macro == 0.3
    assert not outcome.complete
    assert old["validation"] == VALIDATION | {"pace": SCORES}  # untouched


def test_what_is_written_is_read_back() -> None:
    scores = ReadingScores(0.5, 0.4, 0.3, 0.35, 1.2)
    mask = MaskScores(
        mask="test", nodes=3, classes=2, local=scores, external=scores, adopted=scores
    )
    outcome = Outcome(
        name="north",
        alpha=0.5,
        weights=(0.5, 0.5),
        decision="External admitted with weight 0.50",
        upload="ab",
        returned="cd",
        received=(),
        validation=mask,
        test=mask,
    )
    assert outcome.complete
    assert Outcome.of(records.plain_record(outcome)) == outcome
    assert "new" not in records.plain_record(mask)


def test_a_score_that_is_no_number_is_named() -> None:
    test = VALIDATION | {"adopted": SCORES | {"nll": "low"}}
    with pytest.raises(ValueError, match=r"^test\.adopted\.nll is 'low', expected a number$"):
        Outcome.of({"alpha": 0.5, "test": test})
