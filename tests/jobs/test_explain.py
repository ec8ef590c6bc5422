"""A job in words."""

from pace.jobs.explain import facts
from tests.sites import job


def test_the_method_is_told_with_what_it_sends() -> None:
    assert facts(job())["method"] == "pace, factors of rank 6"
    assert facts(job(rank=None))["method"] == "pace, dense messages"
    assert facts(job(method="fedavg"))["method"] == "fedavg"


def test_names_are_told_as_they_were_given() -> None:
    """Even one that looks like a slip."""
    told = facts(job(classes=("classs", "b", "c", "d")))["names"]
    assert told.startswith("classes in order: classs, b, c, d; features in order: f0, f1,")
    assert told.endswith("(40 in all)")
