"""The page on the wire format is complete: a second program, written from it, gives the same bytes."""

import ast
import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.errors import PaceError
from pace.jobs import admission, signatures
from pace.jobs.job import SERVER, Job, read_job, render_job
from pace.models.networks import GCN
from pace.protocol import layouts, number_formats, steps, wire
from pace.protocol.method import Summable
from pace.protocol.ring import counted
from pace.protocol.uploads import Messages
from tests import second_implementation as second
from tests.graphs import clients
from tests.sealed import key_of, sealed_job
from tests.sites import job

PAGE = (Path(__file__).parents[2] / "docs" / "wire-format.md").read_text()
DIGEST, ANSWERS = b"12345678", b"abcd"

Theirs = Mapping[str, second.Tensor]

kinds = st.sampled_from(number_formats.KINDS)
names = st.text(st.characters(max_codepoint=127), max_size=20)
shapes = st.lists(st.integers(0, 6), max_size=3).map(tuple)
LARGEST = 2.0**127  # in int8, float32's own largest number can be rounded beyond its range
singles = st.floats(-LARGEST, LARGEST, width=32)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, second.Tensor]:
    """Tensors of float32 numbers, enormous, tiny and subnormal ones among them."""
    made = {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        shape = draw(shapes)
        count = int(np.prod(shape))
        made[name] = second.Tensor(
            shape, tuple(draw(st.lists(singles, min_size=count, max_size=count)))
        )
    return made


def ours(message: Theirs, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(each.numbers, dtype=dtype).reshape(each.shape)
        for name, each in message.items()
    }


def theirs(message: Mapping[str, torch.Tensor]) -> dict[str, second.Tensor]:
    return {
        name: second.Tensor(tuple(value.shape), tuple(value.flatten().tolist()))
        for name, value in message.items()
    }


def sealed(body: bytes) -> bytes:
    """A frame with a right checksum, whatever its body says."""
    return body + struct.pack("<I", zlib.crc32(body))


def verdict(read: Callable[[], object]) -> str:
    """`read`, or the code of the refusal."""
    try:
        read()
    except (PaceError, second.RefusedError) as error:
        return error.code
    return "read"


def test_the_second_implementation_needs_the_standard_library_alone() -> None:
    modules = set()
    for node in ast.walk(ast.parse(Path(second.__file__).read_text())):
        if isinstance(node, ast.Import):
            modules |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or ".")
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names


@given(messages(), kinds)
@settings(max_examples=200)
def test_both_write_the_same_bytes_and_read_the_same_numbers(
    message: dict[str, second.Tensor], kind: str
) -> None:
    frame = wire.encode(ours(message), DIGEST, ANSWERS, kind)
    assert second.write(message, DIGEST, ANSWERS, kind) == frame
    read, opened = second.read(frame), wire.decode(frame)
    assert (read.digest, read.answers) == (opened.digest, opened.answers) == (DIGEST, ANSWERS)
    assert read.tensors == theirs(opened.message)
    assert list(read.tensors) == list(message)


@given(st.integers(0, 999), st.tuples(st.integers(1, 9), st.integers(1, 9)), kinds)
@settings(max_examples=60)
def test_numbers_held_in_float64_are_rounded_once(
    seed: int, shape: tuple[int, int], kind: str
) -> None:
    random = torch.Generator().manual_seed(seed)
    message = {"w": torch.randn(shape, generator=random, dtype=torch.float64)}
    frame = wire.encode(message, DIGEST, numbers=kind)
    assert second.write(theirs(message), DIGEST, kind=kind, exact=True) == frame


def broken_table(frame: bytes, place: int) -> bytes:
    """One byte after the head changed, and the checksum made to fit."""
    body = bytearray(frame[:-4])
    body[place % len(body)] ^= 1 << place % 8
    return sealed(bytes(body))


DAMAGES: list[Callable[[bytes, int], bytes]] = [
    lambda frame, place: frame[: place % len(frame)],
    lambda frame, place: frame + bytes(place % 9),
    lambda frame, place: frame[:-1] + bytes([frame[-1] ^ 1]),
    lambda frame, place: sealed(frame[: place % len(frame)]),
    broken_table,
    lambda frame, place: broken_table(broken_table(frame, 17 + place % 30), place),
]


@given(messages(), kinds, st.sampled_from(DAMAGES), st.integers(0, 10**4), st.booleans())
@settings(max_examples=250)
def test_both_refuse_the_same_frames_by_the_same_code(
    message: dict[str, second.Tensor],
    kind: str,
    damage: Callable[[bytes, int], bytes],
    place: int,
    agreed: bool,
) -> None:
    layout = {name: each.shape for name, each in message.items()}
    frame = damage(second.write(message, DIGEST, ANSWERS, kind), place)
    expected = wire.Layout(layout, kind) if agreed else None
    found = verdict(lambda: wire.decode(frame, expected))
    assert verdict(lambda: second.read(frame, layout if agreed else None, kind)) == found


HEAD = b"PACE\x01" + DIGEST + bytes(4)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", "format"),
        (sealed(b"PACE\x05" + DIGEST + bytes(5)), "version"),
        (HEAD + b"\x00" + bytes(4), "damaged"),
        (sealed(HEAD + b"\x01\x01"), "format"),
        (sealed(HEAD + b"\x01\x01\x80\x00"), "format"),
        (sealed(HEAD + b"\x02\x01a\x00\x01a\x00" + bytes(8)), "layout"),
        (sealed(HEAD + b"\x01\x01a\x09" + bytes(36)), "layout"),
        (sealed(HEAD + b"\x01\x01a\x03" + struct.pack("<3I", 0, 2**31, 2**31)), "layout"),
        (sealed(HEAD + b"\x01\x01a\x01" + struct.pack("<I", 2**31)), "size"),
        (sealed(HEAD + b"\x01\x01a\x00" + struct.pack("<f", float("nan"))), "not-finite"),
        (sealed(HEAD + b"\x01\x01a\x00" + struct.pack("<f", 1.0)), "read"),
    ],
)
def test_each_line_of_the_page_has_its_code(frame: bytes, code: str) -> None:
    assert verdict(lambda: wire.decode(frame)) == code
    assert verdict(lambda: second.read(frame)) == code


def test_the_pages_frame_is_what_both_write() -> None:
    shown = re.search(r"```text\n(50 41 .*?)```", PAGE, re.DOTALL)
    assert shown
    frame = bytes.fromhex(shown[1])
    rows = (-0.75, -0.5, 0.0, 0.5, 1.0, 0.125, 0.0625, 0.0, -0.0625, -0.125)
    message = {"w": second.Tensor((2, 5), rows), "b": second.Tensor((2,), (1.0, -0.75))}
    assert second.write(message, DIGEST, kind="int8") == frame
    assert wire.encode(ours(message), DIGEST, numbers="int8") == frame


def test_the_pages_json_gives_the_pages_digest() -> None:
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    said = re.search(r"the digest is `([0-9a-f]{16})`", PAGE)
    assert block
    assert said
    settings = " ".join(line.strip() for line in block[1].splitlines())
    assert json.loads(settings)[0]["model"]["widths"] == [5, 4, 3]
    made = second.start((5, 4, 3), 104729)
    start = b"".join(
        name.encode() + struct.pack(f"<{len(each.numbers)}f", *each.numbers)
        for name, each in made.items()
    )
    assert sha256(settings.encode() + start).hexdigest()[:16] == said[1]


@given(
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    seed=st.integers(0, 2**34),
    rank=st.none() | st.integers(1, 7),
    dropout=st.floats(0, 0.99),
    kind=kinds,
    words=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=9, max_size=9),
)
@settings(max_examples=60)
def test_a_jobs_digests_tensors_and_sizes_are_found_from_its_file(
    widths: list[int], seed: int, rank: int | None, dropout: float, kind: str, words: list[str]
) -> None:
    made = Job(
        "any",
        GCN(tuple(widths), dropout),
        settings={"rank": rank},
        seed=seed,
        epochs=7,
        features=tuple(words[: widths[0]]),
        numbers=kind,
    )
    found = second.Job.read(render_job(made))
    assert found.digest == made.digest
    assert found.start_digest == found.content["model"]["start"]
    assert found.federation == made.federation.digest
    upload, returned = (found.layout(upload=upload) for upload in (True, False))
    agreed = layouts.upload_layout(made.federation), layouts.return_layout(made.federation)
    assert list(upload.items()) == list(agreed[0].items())
    assert list(returned.items()) == list(agreed[1].items())
    assert second.size(upload, kind) == agreed[0].size == admission.exact_size(made)
    assert second.size(returned, kind) == agreed[1].size


def test_a_changed_job_is_refused_by_both(tmp_path: Path) -> None:
    text = render_job(job()).replace("epochs = 5", "epochs = 6")
    (tmp_path / "job.pace").write_text(text)
    assert verdict(lambda: read_job(tmp_path / "job.pace")) == "other-job"
    assert verdict(lambda: second.Job.read(text)) == "other-job"


@pytest.mark.parametrize("kind", number_formats.KINDS)
def test_a_second_client_and_a_second_server_take_part(kind: str) -> None:
    """Uploads and returns of either are good for the other, and good for nothing else."""
    made = job(numbers=kind)
    agreed, found = made.federation, second.Job.read(render_job(made))
    graphs = clients(2)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    messages = [
        agreed.method.share(kept.local, graph, agreed)
        for graph, (kept, _) in zip(graphs, fitted, strict=True)
    ]
    uploads = [second.write(theirs(each), found.federation, kind=kind) for each in messages]
    assert uploads == [upload for _, upload in fitted]
    for upload in uploads:
        read = found.check_upload(upload)
        admitted = admission.admit(upload, "north", made).content
        assert read.tensors == theirs(wire.decode(admitted).message)

    returns = steps.merge(uploads, agreed)
    decoded = Messages(wire.decode(upload).message for upload in uploads)
    merged = list(agreed.method.merge(decoded, agreed))
    for graph, (kept, upload), returned, message in zip(
        graphs, fitted, returns, merged, strict=True
    ):
        written = second.write(theirs(message), found.federation, upload[-4:], kind, exact=True)
        assert written == returned
        assert found.check_return(returned, upload).answers == upload[-4:]
        assert 0 <= steps.adopt(graph, kept, written, agreed).alpha <= 1
    wrong = returns[1]
    assert verdict(lambda: found.check_return(wrong, uploads[0])) == "other-receiver"
    kept = fitted[0][0]
    assert verdict(lambda: steps.adopt(graphs[0], kept, wrong, agreed)) == "other-receiver"


@pytest.fixture(scope="module")
def taking_part() -> tuple[Job, second.Job, dict[str, second.Tensor]]:
    made = job()
    _, upload = steps.fit(clients(1)[0], made.federation)
    return made, second.Job.read(render_job(made)), dict(second.read(upload).tensors)


@pytest.mark.parametrize(
    ("name", "scale", "expected"),
    [
        *(("0.weight/m", scale, "read") for scale in (1.0, 0.0, 0.5, 1e-30, 1.0005)),
        *(("0.weight/m", scale, "moment") for scale in (1.01, -1.0)),
        ("0.weight/m", 1e30, "not-finite"),
        ("0.weight/R", 1e6, "read"),
        ("0.weight/R", 1e30, "not-finite"),
    ],
)
def test_both_judge_numbers_alike(
    name: str,
    scale: float,
    expected: str,
    taking_part: tuple[Job, second.Job, dict[str, second.Tensor]],
) -> None:
    made, found, tensors = taking_part
    given = tensors[name]
    scaled = second.Tensor(given.shape, tuple(scale * number for number in given.numbers))
    upload = second.write(tensors | {name: scaled}, found.federation)
    assert verdict(lambda: admission.admit(upload, "north", made)) == expected
    assert verdict(lambda: found.check_upload(upload)) == expected


def test_both_judge_envelopes_alike(
    taking_part: tuple[Job, second.Job, dict[str, second.Tensor]],
) -> None:
    made, found, tensors = taking_part
    backwards = dict(reversed(tensors.items()))
    for upload, code in [
        (second.write(tensors, DIGEST), "other-job"),
        (second.write(tensors, found.federation, ANSWERS), "layout"),
        (second.write(backwards, found.federation), "layout"),
        (second.write(tensors, found.federation)[:-1], "size"),
    ]:
        assert verdict(lambda upload=upload: admission.admit(upload, "north", made)) == code  # type: ignore[misc]
        assert verdict(lambda upload=upload: found.check_upload(upload)) == code  # type: ignore[misc]


def test_signatures_are_made_and_checked_from_the_page() -> None:
    keys = {name: Ed25519PrivateKey.generate() for name in ("north", "south", "west", SERVER)}
    made = job(keys={name: signatures.public_key(key) for name, key in keys.items()})
    found = second.Job.read(render_job(made))
    _, frame = steps.fit(clients(1)[0], made.federation)
    signed = keys["north"].sign(found.statement("upload", "north", frame))
    upload = frame + second.fingerprint(found.public("north")) + signed
    assert admission.admit(upload, "anything", made).name == "north"
    assert len(upload) == second.size(found.layout(upload=True), found.kind) + 72

    (back,) = steps.merge([frame], made.federation)
    returned = signatures.sign(
        back, keys[SERVER], kind=signatures.RETURN, job=made.digest, name="north"
    )
    assert returned[-72:-64] == second.fingerprint(found.public(SERVER))
    public = Ed25519PublicKey.from_public_bytes(found.public(SERVER))
    public.verify(returned[-64:], found.statement("return", "north", returned[:-72]))


def test_the_codes_of_the_page_are_codes() -> None:
    section = PAGE.split("## What is refused")[1].split("\n## ")[0]
    shown = set(re.findall(r"\| `([a-z-]+)` \|", section))

    def codes(kind: type[PaceError]) -> set[str]:
        return {kind.code}.union(*map(codes, kind.__subclasses__()))

    assert len(shown) == 9
    assert shown <= codes(PaceError)


def test_a_second_server_adds_up_sealed_uploads() -> None:
    """From the page alone: every upload is read, and the sum of all is the plain statistics'."""
    made = sealed_job()
    agreed, graphs = made.federation, clients(3)
    plain, frames = [], []
    for name, graph in zip(made.participants, graphs, strict=True):
        seal = made.seal(name, key_of(name))
        kept, frame = steps.fit(graph, agreed, seal=seal)
        frames.append(second.read(frame, layouts.upload_layout(agreed), "sealed"))
        assert isinstance(agreed.method, Summable)
        shared = agreed.method.share(kept.local, graph, agreed)
        plain.append(counted(agreed.method.statistic_of(shared, agreed)))
    for name, tensor in second.added_up(frames).items():
        expected = torch.stack([message[name] for message in plain]).sum(0).flatten()
        found = torch.tensor(tensor.numbers, dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-18)
