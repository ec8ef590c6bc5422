"""A job in words."""

from pace.jobs.explain import advice, job_facts
from pace.jobs.job import Job
from pace.models.gcn import GCN
from tests.sites import job


def test_the_method_is_told_with_what_it_sends() -> None:
    assert job_facts(job())["method"] == "pace, factors of rank 6"
    assert job_facts(job(settings={"rank": None}))["method"] == "pace, dense messages"
    assert job_facts(job(method="fedavg"))["method"] == "fedavg"


def test_names_are_told_as_they_were_given() -> None:
    """Even one that looks like a slip."""
    told = job_facts(job(classes=("classs", "b", "c", "d")))["names"]
    assert told.startswith("classes in order: classs, b, c, d; features in order: f0, f1,")
    assert told.endswith(" and 28 more")


def test_factors_that_cost_more_than_the_model_are_told_of() -> None:
    small = Job("small", GCN((8, 64, 3)))
    (said,) = advice(small)
    assert "an upload of rank 6 costs 103%" in said
    assert "--rank 5 costs 94%" in said
    assert advice(Job("large", GCN((500, 64, 3)))) == []
    assert advice(Job("dense", GCN((8, 64, 3)), settings={"rank": None})) == []
