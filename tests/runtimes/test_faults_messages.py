"""Bytes from strangers: what the frames of other tests do not show yet."""

import gzip
import json
import math
import struct
import zlib
from pathlib import Path

import pytest
import torch

from pace.errors import FileError, PaceError, WireError
from pace.jobs.admission import admit
from pace.jobs.disclosure import influence
from pace.jobs.job import read_job, write_job
from pace.jobs.journal import Journal, Refusal
from pace.methods import Pace
from pace.models.networks import GCN
from pace.protocol import layouts, steps, wire
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace.runtimes.files import merge, model
from tests.graphs import clients
from tests.jobs.test_admission import JOB, framed, honest, message, refused
from tests.memory import MIB, peak
from tests.sites import job

DIGEST = JOB.federation.digest


def sealed(table: bytes, count: int, numbers: bytes = b"") -> bytes:
    """A frame with a right checksum, whatever it says."""
    body = b"PACE\x01" + DIGEST + bytes(4) + bytes([count]) + table + numbers
    return body + zlib.crc32(body).to_bytes(4, "little")


def row(name: str, *shape: int) -> bytes:
    label = name.encode()
    return (
        bytes([len(label)]) + label + bytes([len(shape)]) + struct.pack(f"<{len(shape)}I", *shape)
    )


MOST = 2**32 - 1
LARGE = {
    "2^64 numbers": sealed(row("a", MOST, MOST), 1),
    "an empty of 2^64 by 0": sealed(row("a", MOST, MOST, 0), 1),
    "255 dimensions": sealed(row("a", *[MOST] * 255), 1),
    "an empty of 255 dimensions": sealed(row("a", *[0] * 255), 1),
    "255 empties": sealed(b"".join(row(f"t{i}", 0, MOST) for i in range(255)), 255),
    "more tensors than it holds": sealed(row("a", 1), 255),
    "64 MiB of zeros": bytes(64 * MIB),
}


@pytest.mark.fault(2)
@pytest.mark.parametrize("fault", LARGE)
def test_no_frame_makes_the_server_allocate(fault: str) -> None:
    def served() -> None:
        assert refused(LARGE[fault]).code == "size"
        assert refused(LARGE[fault][: len(honest())].ljust(len(honest()), b"\0")).code in (
            "damaged",
            "layout",
            "format",
        )

    served()  # what is computed once, such as the sizes of the job's messages
    assert peak(served) < 4 * MIB


@pytest.mark.fault(2)
@pytest.mark.parametrize("fault", LARGE)
def test_looking_at_a_frame_without_a_job_allocates_nothing_either(fault: str) -> None:
    """`pace inspect` knows no sizes; a frame still cannot ask for more than it brings."""

    def looked() -> None:
        try:
            found = wire.decode(LARGE[fault]).message
        except WireError:
            return
        assert all(value.numel() == 0 for value in found.values())

    assert peak(looked) < 4 * MIB


@pytest.mark.fault(2)
def test_a_file_of_a_tebibyte_is_refused_by_its_size(tmp_path: Path) -> None:
    book = Journal.open(tmp_path / "journal", JOB)
    path = tmp_path / "north.up"
    path.touch()
    with path.open("r+b") as opened:
        opened.truncate(2**40)
    found: list[Refusal | None] = []
    assert peak(lambda: found.append(merge.take(path, book))) < 4 * MIB
    assert found[0] is not None
    assert found[0].code == "size"


def file_of(path: Path, header: dict[str, object], length: int | None = None) -> Path:
    text = json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text)
    return path


@pytest.mark.fault(2)
def test_files_of_tensors_are_bounded_too(tmp_path: Path) -> None:
    """What safetensors lets pass: 100,000 empties, huge shapes of no bytes, a header of 2^63."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    many = file_of(tmp_path / "many", {f"t{i}": empty for i in range(100_000)})
    huge = file_of(tmp_path / "huge", {"a": {**empty, "shape": [0, 2**40]}})
    long = file_of(tmp_path / "long", {"a": empty}, 2**63 - 1)
    for path in (many, huge, long):

        def read(path: Path = path) -> None:
            with pytest.raises(FileError):
                model.read_tensors(path, model.KEPT)

        assert peak(read) < 32 * MIB


@pytest.mark.fault(3)
def test_nothing_is_decompressed(tmp_path: Path) -> None:
    """A gzipped upload is just bytes of a wrong size or kind, also if it has the right size."""
    bomb = gzip.compress(bytes(64 * MIB))
    assert refused(bomb).code == "size"
    assert refused(bomb[: len(honest())].ljust(len(honest()), b"\0")).code == "format"
    source = Path(wire.__file__).parent.rglob("*.py")
    words = ("import gzip", "import bz2", "import lzma", "zlib.decompress", "zipfile")
    assert [path for path in source for word in words if word in path.read_text()] == []


@pytest.mark.fault(4)
@pytest.mark.parametrize("number", [-0.0, 1e-45, -1e-45, 1.17e-38])
def test_minus_zero_and_subnormals_are_numbers_like_others(number: float) -> None:
    made = message()
    made["0.bias"].fill_(number)
    admitted = wire.decode(admit(framed(made), "north", JOB).content).message["0.bias"]
    assert torch.equal(admitted, made["0.bias"])
    assert math.copysign(1, float(admitted[0])) == math.copysign(1, number)
    returned = wire.decode(steps.merge([framed(made)], JOB.federation)[0]).message
    assert all(torch.isfinite(value).all() for value in returned.values())


@pytest.mark.fault(4)
@pytest.mark.parametrize("numbers", ["float16", "int8"])
def test_numbers_of_another_type_are_refused(numbers: str) -> None:
    narrow = wire.encode(message(), DIGEST, numbers=numbers)
    assert refused(narrow).code == "size"
    padded = narrow[:-4].ljust(len(honest()) - 4, b"\0")
    padded += zlib.crc32(padded).to_bytes(4, "little")
    assert refused(padded).code in ("version", "layout", "size")


@pytest.mark.fault(5)
def test_another_rank_an_extra_tensor_and_a_name_twice_are_refused_by_name() -> None:
    other = Federation(JOB.model, Pace(rank=5), JOB.seed, JOB.epochs)
    assert refused(steps.fit(clients(3)[0], other)[1]).code == "size"
    expected = layouts.upload_layout(JOB.federation)
    for changed in (
        {**message(), "extra": torch.ones(1)},
        {name: value for name, value in message().items() if name != "0.bias"},
        {name.replace("1.weight/m", "1.bias/m"): value for name, value in message().items()},
    ):
        frame = framed(changed)
        assert refused(frame).code in ("size", "layout")
        # Where a frame is as long as it should be, the answer names the tensor.
        if len(frame) == expected.size:
            with pytest.raises(WireError, match=r"1\.bias/m"):
                wire.decode(frame, expected)
    with pytest.raises(WireError, match="'a' occurs twice"):
        wire.decode(sealed(row("a", 0) * 2, 2))


@pytest.mark.fault(6, 7)
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("0.weight/m", -0.5, "go down to -0.5"), ("1.weight/m", 1e6, "have mean")],
)
def test_moments_that_buy_weight_are_refused_by_name(name: str, value: float, says: str) -> None:
    made = message()
    made[name][0] = value
    found = str(refused(framed(made)))
    assert repr(name) in found
    assert says in found


@pytest.mark.fault(8)
def test_concentrated_moments_are_legal_and_reported() -> None:
    """All mass on one column: the client owns that column, drops out elsewhere, and both show."""
    uploads = [steps.fit(graph, JOB.federation)[1] for graph in clients(3)]
    messages = [steps.check_upload(upload, JOB.federation) for upload in uploads]
    before = influence(Messages(messages), JOB.federation)
    moment = torch.zeros_like(messages[0]["0.weight/m"])
    moment[0] = len(moment)
    narrow = {**messages[0], "0.weight/m": moment}
    admit(framed(narrow), "north", JOB)
    after = influence(Messages([narrow, *messages[1:]]), JOB.federation)
    assert sum(each.share or 0 for each in after) == pytest.approx(1)
    shares = [(was.share or 0, now.share or 0) for was, now in zip(before, after, strict=True)]
    assert shares[0][1] < shares[0][0]
    assert all(now > was for was, now in shares[1:])


@pytest.mark.fault(13)
def test_an_upload_of_an_earlier_job_with_the_same_settings_is_refused() -> None:
    again = job()
    assert again.federation.start.keys() == JOB.federation.start.keys()
    error = refused(honest(), made=again)
    assert error.code == "other-job"
    assert JOB.federation.digest.hex() in str(error)
    assert again.federation.digest.hex() in str(error)


@pytest.mark.fault(15)
def test_a_mismatch_shows_both_values() -> None:
    seven = bytearray(honest())
    seven[4] = 7
    says = str(refused(bytes(seven)))
    assert "version 7" in says
    assert "1" in says.partition("reads")[2]
    for other in (job(settings={"rank": 5}), job(method="fedavg")):
        upload = steps.fit(clients(3)[0], other.federation)[1]
        says = str(refused(upload))
        assert f"{len(upload):,}" in says
        assert f"{len(honest()):,}" in says
    for other in (job(seed=8), job(epochs=6)):  # the same sizes: the digests differ
        upload = steps.fit(clients(3)[0], other.federation)[1]
        says = str(refused(upload))
        assert other.federation.digest.hex() in says
        assert JOB.federation.digest.hex() in says


@pytest.mark.fault(15)
def test_another_start_is_noticed_though_the_seed_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that draws other numbers from the same seed: both digests of W_0 are shown."""
    write_job(tmp_path / "job.pace", JOB)
    real = GCN.start

    def other(self: GCN, seed: int) -> dict[str, torch.Tensor]:
        return {name: value + 1 for name, value in real(self, seed).items()}

    monkeypatch.setattr(GCN, "start", other)
    with pytest.raises(
        PaceError, match=r"model\.start is '[0-9a-f]{16}', here it is '[0-9a-f]{16}'"
    ):
        read_job(tmp_path / "job.pace")
