"""A job in words."""

from pace.jobs.explain import job_facts
from tests.sites import job


def test_the_method_is_told_with_what_it_sends() -> None:
    assert job_facts(job())["method"] == "pace, rank 6"
    assert job_facts(job(settings={"rank": None}))["method"] == "pace, rank dense"
    assert job_facts(job(method="fedavg"))["method"] == "fedavg"


def test_names_are_told_as_they_were_given() -> None:
    """Even one that looks like a slip."""
    told = job_facts(job(classes=("classs", "b", "c", "d")))["names"]
    assert told.startswith("classes in order: classs, b, c, d; features in order: f0, f1,")
    assert told.endswith(" and 28 more")
