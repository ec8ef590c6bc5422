"""The egress report: attacks on the very upload, the site's policy, and the log of decisions."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from pace.datasets import Dataset, divide
from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import FileError, PolicyError
from pace.graph import Graph
from pace.jobs import read_job, write_job
from pace.methods import METHODS, Pace, RidgeSums, make
from pace.models import GCN
from pace.protocol import Federation, Message, Messages, Reading, steps
from pace.runtimes.files import attacks, egress, fit_files, load_site
from pace.runtimes.files.egress import (
    Egress,
    Policy,
    append_decision,
    egress_files,
    log_file,
    read_policy,
    verify_log,
)
from pace.task import roc_auc
from tests.graphs import clients, federation
from tests.preloaded import Preloaded
from tests.sealed import sealed_job, write_key
from tests.sites import FIT, job, write_sites


def test_the_auc_is_scikit_learns_and_the_combined_one_is_of_held_out_nodes() -> None:
    random = torch.Generator().manual_seed(0)
    positive = torch.rand(400, generator=random) < 0.3
    scores = torch.randint(5, (400,), generator=random).double()  # with ties
    assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert roc_auc(scores, torch.ones(400, dtype=torch.bool)) is None
    noise = torch.randn(400, 40, generator=random).double()
    assert attacks.held_out_auc(noise, positive) == pytest.approx(0.5, abs=0.1)  # not fitted to
    two = noise[:, :2] + positive[:, None] * torch.tensor([1.0, 0.5])
    oracle = cross_val_score(LogisticRegression(), two, positive, scoring="roc_auc", cv=5).mean()
    assert attacks.held_out_auc(two, positive) == pytest.approx(oracle, abs=0.02)


def reading(message: Message, agreed: Federation) -> Reading:
    return agreed.method.explain(Messages([message]), agreed).reading()


@pytest.mark.fault(38)
def test_no_training_node_is_ruled_out_by_the_moments() -> None:
    """n m_j ≥ s_j² at each training node, up to the scale that all columns share."""
    (graph,), agreed = clients(1), federation(Pace())
    message = steps.check_upload(steps.fit(graph, agreed)[1], agreed)
    moment = message["0.weight/m"].double()
    rows = agreed.network(agreed.start, graph).inputs["0.weight"]
    squares = rows[graph.train].double().square()
    scale = float(moment.sum() / squares.mean(0).sum())
    least = torch.log(torch.tensor(scale / len(squares)))
    scores = attacks.within_moments(rows[torch.ones(graph.nodes, dtype=torch.bool)], moment)[:, 0]
    assert bool((scores[graph.train] >= least - 1e-4).all())
    assert roc_auc(scores, graph.train) == pytest.approx(roc_auc_score(graph.train, scores.numpy()))


@pytest.mark.fault(38)
def test_nodes_that_are_ruled_out_are_alike_and_the_two_lowest_ratios_are_told() -> None:
    """However small the value in a column that no training node has; other columns are compared."""
    moment = torch.tensor([4.0, 2.0, 0.0])
    rows = torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, 9.0], [0.1, 2.0, 1e-3]])
    found = attacks.within_moments(rows, moment)
    far, logs = attacks.RULED_OUT, torch.log(torch.tensor([2.0, 4.0, 0.5, 4.0, 0.5]).double())
    expected = [[logs[0], logs[1]], [logs[2], far], [-far, logs[3]], [-far, logs[4]]]
    torch.testing.assert_close(found, torch.tensor(expected).double())
    assert attacks.within_moments(rows[:, :1], moment[:1]).shape == (4, 1)


@pytest.mark.fault(38)
def test_an_upload_is_attacked_more_than_its_sums_would_be() -> None:
    made = synthetic(Synthetic(nodes=400, features=200, classes=4, communities=4))
    (graph,) = divide(Dataset("small", made, 4), "dirichlet", 1)
    agreed = replace(federation(Pace()), model=GCN((200, 16, 4)), epochs=40)
    message = steps.check_upload(steps.fit(graph, agreed)[1], agreed)
    risk = attacks.attack(reading(message, agreed), graph, agreed)
    of_sums = attacks.sums_with(message, graph, agreed, 10)
    assert of_sums is not None
    sums = attacks.attack(of_sums, graph, agreed)
    assert risk.auc is not None
    assert sums.auc is not None
    assert risk.auc > max(0.65, sums.auc + 0.1)
    absent = int(((graph.x[graph.train] != 0).sum(0) == 0).sum())
    assert risk.absent <= absent  # a zero moment is of a feature that no training node has
    assert risk.read_whole == 0


@pytest.mark.fault(38)
@pytest.mark.parametrize("method", ["pace-ridge", "pace-full", "pace-ridge-sums"])
def test_sums_by_class_tell_no_more_than_the_report_says(method: str) -> None:
    """Another attack, by counting alone: a feature that no training node of its class has."""
    made = synthetic(Synthetic(nodes=600, features=200, classes=4, communities=4))
    (graph,) = divide(Dataset("small", made, 4), "dirichlet", 1)
    agreed = replace(federation(make(method)), model=GCN((200, 16, 4)))
    message = steps.check_upload(steps.fit(graph, agreed)[1], agreed)
    reading = agreed.method.explain(Messages([message]), agreed).reading()
    risk = attacks.attack(reading, graph, agreed)
    assert reading.class_words is not None
    sums = reading.class_words.T[graph.y]
    strange = (graph.x != 0) & (sums < 1e-2 * sums.mean(1, keepdim=True))
    asked = graph.train | graph.test
    told = roc_auc_score(graph.train[asked], -strange[asked].sum(1))
    assert told > 0.6
    assert risk.auc is not None
    assert risk.auc > told - 0.01


@pytest.mark.fault(38)
def test_a_feature_of_one_to_four_training_nodes_is_rare() -> None:
    counts = torch.tensor([0, 1, 4, 5, 6])
    x = (torch.arange(6)[:, None] < counts).float()
    labels, trained = torch.zeros(6).long(), torch.ones(6).bool()
    graph = Graph.build(x, torch.zeros(2, 0).long(), labels, train=trained)
    agreed = Federation(GCN((5, 4, 2)), Pace())
    risk = attacks.attack(Reading(words=counts.double()), graph, agreed)
    assert (risk.absent, risk.rare) == (1, 2)


def test_a_node_alone_in_its_class_is_said_to_be_read_whole() -> None:
    (graph,), agreed = clients(1), federation(RidgeSums())
    label = int(graph.training_labels[0])
    train = graph.train & (graph.y != label)
    train[graph.train.nonzero()[0]] = True
    few = replace(graph, train=train)
    single = int((torch.bincount(few.training_labels) == 1).sum())
    message = agreed.method.share(agreed.start, few, agreed)
    risk = attacks.attack(reading(message, agreed), few, agreed)
    assert risk.read_whole == single > 0


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_attacked_or_has_nothing_to_attack(name: str) -> None:
    (graph,), agreed = clients(1), federation(make(name))
    message = agreed.method.share(agreed.start, graph, agreed)
    risk = attacks.attack(reading(message, agreed), graph, agreed)
    assert (risk.auc is None) == (not message)
    assert all(0 <= value <= 1 for value in risk.membership.values())


def fitted(north: Path, limits: Policy | None = None, **options: object) -> Egress | None:
    made = read_job(north / "job.pace")
    files = (north / "mine.local", north / "north.up")
    return fit_files(made, load_site(north / "mine.graph", made), *files, policy=limits, **options)  # type: ignore[arg-type]


@pytest.fixture
def north(tmp_path: Path) -> Path:
    return write_sites(tmp_path, job())[0]


@pytest.mark.fault(51)
def test_nothing_is_written_for_sending_before_somebody_agreed(north: Path) -> None:
    seen: list[Egress] = []

    def no() -> bool:
        assert not (north / "north.up").exists()
        assert (north / "north.egress.html").exists()  # to be read before the answer
        return False

    assert fitted(north, tell=seen.append, confirm=no) is None
    assert not (north / "north.up").exists()
    assert not (north / "mine.local").exists()
    report = json.loads((north / "north.egress.json").read_text())
    assert not report["decision"]["agreed"]
    agreed = fitted(north, by="a person")
    assert agreed is not None
    assert agreed.decision is not None
    content = (north / "north.up").read_bytes()
    report = json.loads((north / "north.egress.json").read_text())
    assert report["sha256"] == hashlib.sha256(content).hexdigest() == seen[0].sha256
    assert report["decision"]["by"] == "a person"
    assert verify_log(log_file(), agreed.decision.audit) == (2, agreed.decision.audit)
    assert (
        fitted(north, confirm=no) is not None
    )  # these bytes were agreed to: nobody is asked again
    assert verify_log(log_file())[0] == 2
    for path in egress_files(north / "mine.local", "north"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Policy(smallest_class=10**6), "the smallest has"),
        (Policy(largest_auc=0.1), "an AUC of at most 0.1"),
        (Policy(sealed_only=True), "open"),
        (Policy(methods=("fedavg",)), "the method is fedavg (pace)"),
    ],
)
def test_an_upload_beyond_a_limit_stays_whatever_a_person_says(
    north: Path, limits: Policy, told: str
) -> None:
    with pytest.raises(PolicyError, match="does not let this upload go") as refused:
        fitted(north, replace(limits, agree=True), confirm=lambda: True)
    assert told in str(refused.value)
    assert not (north / "north.up").exists()
    (entry,) = map(json.loads, log_file().read_text().splitlines())
    assert (entry["agreed"], entry["by"]) == (False, "the site's policy")
    page = (north / "north.egress.html").read_text()
    assert "does not hold" in page


def test_a_policy_agrees_within_its_limits_and_a_sealed_job_is_judged_by_its_sums(
    north: Path, tmp_path: Path
) -> None:
    def nobody() -> bool:
        raise AssertionError("nobody is asked")

    assert fitted(north, Policy(methods=("pace",), agree=True), confirm=nobody)
    made = sealed_job()
    write_job(tmp_path / "sealed.pace", made)
    files = (tmp_path / "k.local", tmp_path / "north.up")
    site, key = load_site(north / "mine.graph", made), write_key(tmp_path, "north")
    assert fit_files(made, site, *files, key=key, policy=Policy(sealed_only=True, agree=True))
    report = json.loads((tmp_path / "north.egress.json").read_text())
    assert report["sealed"]
    assert len(report["parties"]) == 4
    assert report["sums"]["membership"] != report["upload"]["membership"]


def found(limits: Policy, smallest: int, auc: float | None, editions: bool = False) -> bool:
    """Whether an upload of a job of PACE keeps the one limit that is set."""
    risk = None if auc is None else attacks.Risk({"combined": auc})
    (limit,) = limits.limits(job(), smallest, risk, editions)
    return limit.kept


def test_a_limit_is_kept_up_to_its_very_number() -> None:
    assert [found(Policy(smallest_class=5), size, None) for size in (4, 5)] == [False, True]
    values = (0.8, 0.81, None)  # what could not be measured is not within a limit
    kept = [found(Policy(largest_auc=0.8), 9, auc) for auc in values]
    assert kept == [True, False, False]
    assert [found(Policy(editions=False), 9, None, later) for later in (False, True)] == [
        True,
        False,
    ]


def test_a_sealed_upload_is_limited_by_the_risk_of_its_sums(north: Path) -> None:
    """And classes that do not occur here are none of the smallest."""
    seen: list[Egress] = []
    assert fitted(north, tell=seen.append, confirm=lambda: True)
    risks = (attacks.Risk({"combined": 0.9}), attacks.Risk({"combined": 0.6}))
    report = replace(seen[0], upload=risks[0], sums=risks[1], counts={"a": 0, "b": 7, "c": 4})
    assert report.smallest == 4
    for is_sealed in (False, True):
        own = replace(report, sealed=is_sealed)
        (limit,) = Policy(largest_auc=0.7).limits(job(), own.smallest, own.seen, False)
        assert limit.kept == is_sealed
    envelope = egress.item_table(report.disclosed).rows[len(report.disclosed.items)]
    sent = sum(item.bytes for item in report.disclosed.items)
    assert envelope[2].text == f"{report.disclosed.frame - sent:,}"
    assert egress.earlier_egress(north / "mine.local", "north", job(), b"other bytes") is None


def test_a_policy_file_is_read_strictly(tmp_path: Path, state: Path) -> None:
    assert read_policy() is None
    state.mkdir()
    (state / "policy.toml").write_text("smallest_class = 5\nlargest_auc = 0.8\nagree = true\n")
    assert read_policy() == Policy(5, 0.8, agree=True)
    for text, told in (
        ("smalest_class = 5", "did you mean 'smallest_class'"),
        ("largest_auc = 2.0", "expected 0 or more, and 0 to 1"),
        ("sealed_only = 1", "expected true or false"),
    ):
        (tmp_path / "p.toml").write_text(text)
        with pytest.raises(FileError, match=told):
            read_policy(tmp_path / "p.toml")


@pytest.mark.fault(52)
def test_a_log_that_was_changed_or_cut_is_found_out() -> None:
    heads = [append_decision({"upload": str(number)}) for number in range(4)]
    path = log_file()
    lines = path.read_text().splitlines(keepends=True)
    assert verify_log(path, heads[1]) == (4, heads[3])
    for wrong in (
        [lines[0], lines[1].replace('"upload": "1"', '"upload": "9"'), *lines[2:]],
        [lines[0], *lines[2:]],
        [lines[1], lines[0], *lines[2:]],
        [*lines[:3], "{"],
        lines[1:],
    ):
        path.write_text("".join(wrong))
        with pytest.raises(FileError, match=r"is not what was written|is damaged"):
            verify_log(path)
        with pytest.raises(FileError):
            append_decision({})
    path.write_text("".join(lines[:3]))  # its end cut off: the chain is whole
    assert verify_log(path)[0] == 3
    with pytest.raises(FileError, match="cut off"):
        verify_log(path, heads[3])


def test_decisions_of_many_processes_are_one_chain(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: append_decision({"upload": str(number)}), range(12)))
    assert verify_log(log_file())[0] == 12


@pytest.mark.fault(51, 52)
def test_report_policy_and_log_from_the_command_line(
    pace: Preloaded, north: Path, state: Path
) -> None:
    done = pace(*FIT, "north.up", cwd=north)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "Attacked here before it leaves" in said
    assert "All of it: north.egress.html" in said
    page = (north / "north.egress.html").read_text()
    titles = ("What leaves", "To whom", "For what", "Risk", "Controls", "Decision")
    assert all(f">{title}</h2>" in page for title in titles)
    audit = pace("client", "audit", "--json", cwd=north).json
    record = json.loads((north / "north.egress.json").read_text())
    assert (audit["decisions"], audit["head"]) == (1, record["decision"]["audit"])
    missing = pace("client", "audit", "--head", "f" * 64, cwd=north)
    assert missing.code == 2
    assert "none with hash" in missing.err
    (state / egress.POLICY).write_text("sealed_only = true\n")
    for name in ("mine.local", "north.up", "north.egress.json"):
        (north / name).unlink()
    stopped = pace(*FIT, "north.up", cwd=north)
    assert stopped.code == 2
    assert "the site's policy does not let this upload go: the job is sealed (open)" in stopped.err
    assert not (north / "north.up").exists()
