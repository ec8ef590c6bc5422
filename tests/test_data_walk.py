"""The walk of the data in docs/architecture.md is the one that the runtimes take."""

import pytest

from tests import data_walk
from tests.data_walk import BEGIN, END, PAGE, RUNTIMES, Hop, defined, section, watched


def test_the_walk_is_that_of_the_runs() -> None:
    page = PAGE.read_text()
    shown = page.split(BEGIN)[1].split(END)[0].strip()
    assert shown == section().strip(), "the way has changed: `python -m tests.data_walk`"


def test_every_hop_links_to_its_definition() -> None:
    links = [hop.link for _, hops in RUNTIMES.values() for hop in hops]
    assert [link for link in links if not defined(link)] == []
    assert not defined("[`wire.decoded`](../src/pace/protocol/wire.py#decoded)")


def test_a_hop_that_is_not_taken_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    spare = Hop("pace.merging.moments:raw", lambda arguments, result: "raw moments")
    title, _ = RUNTIMES["one process"]
    monkeypatch.setattr(data_walk, "walks", lambda: {"one process": {}})
    monkeypatch.setitem(RUNTIMES, "one process", (title, (spare,)))
    with pytest.raises(AssertionError, match=r"moments:raw.* were not called"):
        section()


def test_only_the_first_call_is_noted_in_the_order_of_calls() -> None:
    from pace.params import size, subtract

    hops = [
        Hop("pace.params:size", lambda arguments, result: str(result)),
        Hop("pace.params:subtract", lambda arguments, result: "difference"),
    ]
    with watched(hops) as passed:
        subtract({}, {})
        size({})
        subtract({}, {})
    assert list(passed.items()) == [
        ("pace.params:subtract", "difference"),
        ("pace.params:size", "0"),
    ]
