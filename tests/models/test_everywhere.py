"""Every model through every step: fit, merge, adopt, jobs, disclosure, and messages of another model."""

from pathlib import Path

import pytest
import torch

from pace.errors import OtherJobError, SettingError
from pace.jobs import explain
from pace.jobs.disclosure import disclosure
from pace.jobs.job import Job, read_job, write_job
from pace.methods import METHODS, make
from pace.models import MODELS, kind_of, settings_of, sized
from pace.models import make as make_model
from pace.protocol import steps
from pace.protocol.federation import Federation
from tests.graphs import CLASSES, FEATURES, clients

GCN_ONLY = {"fedpub", "fedaux", "fedtad"}


def federation(kind: str, method: str = "pace") -> Federation:
    return Federation(sized(kind, FEATURES, 16, 2, CLASSES), make(method), 7, 5)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", ["pace", "pace-raw", "pace-duo", "fedgta", "fedrcl"])
def test_one_round_of_every_model(kind: str, method: str) -> None:
    graphs, agreed = clients(3), federation(kind, method)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, (kept, upload), returned in zip(graphs, fitted, returns, strict=True):
        steps.check_upload(upload, agreed)
        adoption = steps.adopt(graph, kept, returned, agreed)
        assert adoption.logits.shape == (graph.nodes, CLASSES)
        assert torch.isfinite(adoption.logits).all()


@pytest.mark.parametrize("kind", MODELS)
def test_training_lowers_the_loss_and_is_the_clients_own(kind: str) -> None:
    graph, agreed = clients(1)[0], federation(kind)
    many = Federation(agreed.model, agreed.method, 7, 40)
    local = steps.fit(graph, many)[0].local
    assert all(
        torch.equal(value, steps.fit(graph, many)[0].local[name]) for name, value in local.items()
    )
    before, after = (
        torch.nn.functional.cross_entropy(
            many.network(params, graph).logits[graph.train], graph.y[graph.train]
        )
        for params in (many.start, local)
    )
    assert float(after) < 0.7 * float(before)


@pytest.mark.parametrize("theirs", MODELS)
@pytest.mark.parametrize("ours", MODELS)
def test_an_upload_of_another_model_is_refused(ours: str, theirs: str) -> None:
    graph = clients(1)[0]
    other, agreed = federation(theirs), federation(ours)
    upload = steps.fit(graph, other)[1]
    if ours == theirs:
        steps.check_upload(upload, agreed)
        return
    with pytest.raises(OtherJobError, match="set up differently, in model"):
        steps.check_upload(upload, agreed)
    with pytest.raises(OtherJobError, match="set up differently, in model"):
        steps.merge([upload], agreed)
    damaged = upload[:-1] + bytes([upload[-1] ^ 1])
    with pytest.raises(Exception, match=r"bytes, expected exactly|damaged"):
        steps.check_upload(damaged, agreed)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", sorted(GCN_ONLY))
def test_methods_of_the_gcn_say_so(kind: str, method: str) -> None:
    assert method in METHODS
    graph, agreed = clients(1)[0], federation(kind, method)
    if kind == "gcn":
        steps.fit(graph, agreed)
        return
    with pytest.raises(SettingError, match="defined on the GCN only"):
        steps.merge([steps.fit(graph, agreed)[1]], agreed)


@pytest.mark.parametrize(
    "text", [*MODELS, "gat:heads=4", "sgc:hops=3", "appnp:hops=4,teleport=0.2", "gin:epsilon=0.5"]
)
def test_a_job_file_keeps_the_model_and_its_settings(text: str, tmp_path: Path) -> None:
    job = Job("mine", sized(text, FEATURES, 16, 2, CLASSES), epochs=5)
    write_job(tmp_path / "job.pace", job)
    again = read_job(tmp_path / "job.pace")
    assert again.model == job.model
    assert again.federation.digest == job.federation.digest
    assert again.digest == job.digest
    kind, settings = MODELS.parse(text)
    assert kind_of(again.model) == kind
    assert settings_of(again.model) | settings == settings_of(again.model)
    said = explain.job_facts(again)["model"]
    assert job.model.title in said
    assert all(f"{key} {value}" in said for key, value in settings.items())


def test_two_kinds_of_equal_sizes_are_two_jobs() -> None:
    jobs = [
        Job("mine", make_model(kind, (FEATURES, 8, CLASSES)), nonce="0" * 32)
        for kind in ("gcn", "mlp", "appnp")
    ]
    assert len({job.digest for job in jobs}) == 3
    assert len({job.federation.digest for job in jobs}) == 3


def test_an_absurd_model_is_refused_before_it_is_made() -> None:
    with pytest.raises(SettingError, match="expected at most"):
        Job("mine", make_model("gat", (10**6, 10**6, 10**6), heads=10**6))


@pytest.mark.parametrize("kind", MODELS)
def test_the_disclosure_says_what_every_tensor_is(kind: str) -> None:
    agreed = federation(kind)
    message = agreed.method.share(agreed.start, clients(1)[0], agreed)
    found = disclosure(message, agreed)
    said = {item.name: item.words for item in found.items}
    assert all(words.split(",")[0].split(";")[0].startswith(("update of layer", "mean square"))
               for words in said.values()), said  # fmt: skip
    assert any(f" of {FEATURES} are exactly zero" in told or "None of them is zero" in told
               for told in found.sentences)  # fmt: skip
    if kind == "sage":
        assert said["0.root.weight/m"] == "mean square of what layer 1 (root) reads"


def test_words_of_a_command() -> None:
    assert MODELS.parse("gat:heads=4") == ("gat", {"heads": 4})
    assert MODELS.parse("appnp:teleport=0.5,hops=2") == ("appnp", {"teleport": 0.5, "hops": 2})
    with pytest.raises(SettingError, match="settings are written gat:key=value"):
        MODELS.parse("gat:heads")
    with pytest.raises(SettingError, match="did you mean 'sage'"):
        MODELS.parse("sages")
    with pytest.raises(SettingError, match="heads is 'many', expected a whole number"):
        sized("gat:heads=many", FEATURES, 16, 2, CLASSES)
    assert sized("sgc", FEATURES, 16, 3, CLASSES) == make_model("sgc", (FEATURES, CLASSES), hops=3)
