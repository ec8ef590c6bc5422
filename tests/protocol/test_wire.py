import struct
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pace.errors import LayoutError, WireError
from pace.methods import Pace
from pace.models.networks import GCN
from pace.params import size
from pace.protocol import layouts, wire
from pace.protocol.federation import Federation

DIGEST, ANSWERS = b"12345678", b"abcd"

shapes = st.dictionaries(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20),
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    max_size=6,
)


@given(shapes, st.integers(0, 999))
@settings(max_examples=80)
def test_a_message_survives_the_wire(layout: dict[str, tuple[int, ...]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    message = {name: torch.randn(shape, generator=generator) for name, shape in layout.items()}
    frame = wire.encode(message, DIGEST, ANSWERS)
    agreed = wire.Layout(layout)
    assert len(frame) == agreed.size
    for expected in (None, agreed):
        opened = wire.decode(frame, expected)
        assert (opened.digest, opened.answers) == (DIGEST, ANSWERS)
        assert list(opened.message) == list(message)
        for name, value in message.items():
            assert torch.equal(opened.message[name], value)


def example() -> tuple[dict[str, Tensor], bytes]:
    message = {"0.weight/L": torch.arange(6.0).reshape(2, 3), "0.bias": torch.ones(2)}
    return message, wire.encode(message, DIGEST)


def test_the_frame_is_what_the_docstring_says() -> None:
    """Built by hand, field by field."""
    _, frame = example()
    table = b"\x0a0.weight/L\x02" + struct.pack("<II", 2, 3) + b"\x060.bias\x01"
    table += struct.pack("<I", 2)
    numbers = struct.pack("<8f", 0, 1, 2, 3, 4, 5, 1, 1)
    body = b"PACE\x01" + DIGEST + bytes(4) + b"\x02" + table + numbers
    assert frame == body + struct.pack("<I", zlib.crc32(body))


def test_numbers_travel_as_float32_whatever_they_were() -> None:
    opened = wire.decode(wire.encode({"a": torch.tensor([1 / 3], dtype=torch.float64)}, DIGEST))
    assert opened.message["a"].dtype == torch.float32
    assert torch.equal(opened.message["a"], torch.tensor([1 / 3]))


def test_every_flipped_bit_is_noticed() -> None:
    message, frame = example()
    for place in range(len(frame)):
        for bit in range(8):
            damaged = bytearray(frame)
            damaged[place] ^= 1 << bit
            with pytest.raises(WireError):
                wire.decode(bytes(damaged), wire.layout(message))


def test_every_truncation_and_extension_is_noticed() -> None:
    message, frame = example()
    for length in range(len(frame)):
        for expected in (None, wire.layout(message)):
            with pytest.raises(WireError):
                wire.decode(frame[:length], expected)
    with pytest.raises(WireError, match="bytes"):
        wire.decode(frame + b"\0", wire.layout(message))


def sealed(body: bytes) -> bytes:
    """A frame with a right checksum, whatever its body says."""
    return body + struct.pack("<I", zlib.crc32(body))


HEAD = b"PACE\x01" + DIGEST + bytes(4)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "not a PACE frame"),
        (b"GIF89a" + bytes(40), "not a PACE frame"),
        (sealed(b"PACE\x07" + DIGEST + bytes(5)), "version 7"),
        (sealed(HEAD + b"\x02" + 2 * (b"\x01a\x01" + struct.pack("<I", 0))), "occurs twice"),
        (sealed(HEAD + b"\x01\xff"), "table of tensors is damaged"),
        (sealed(HEAD + b"\x01\x01\xff\x00"), "table of tensors is damaged"),
        (sealed(HEAD + b"\x01\x01a\x02" + b"\xff" * 8), "its table describes"),
        (sealed(HEAD + b"\x01\x01a\x01" + struct.pack("<If", 1, float("nan"))), "not finite"),
        (sealed(HEAD + b"\x01\x01a\x01" + struct.pack("<If", 1, float("inf"))), "not finite"),
    ],
)
def test_malformed_frames_are_refused_with_the_reason(frame: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        wire.decode(frame)


def test_another_layout_of_the_same_size_is_refused_by_name() -> None:
    _, frame = example()
    with pytest.raises(WireError, match=r"0.weight/L \(2, 3\).*expected 0.weight/R"):
        wire.decode(frame, wire.Layout({"0.weight/R": (3, 2), "0.bias": (2,)}))


# features, classes, printed upload and return ratios of the paper's communication table
BENCHMARKS = {
    "Cora": (1433, 7, 12.1, 10.3),
    "CiteSeer": (3703, 6, 11.4, 9.7),
    "PubMed": (500, 3, 13.6, 11.4),
    "CS": (6805, 15, 11.2, 9.6),
    "Computers": (767, 10, 13.1, 11.1),
    "ogbn-arxiv": (128, 40, 21.6, 17.6),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_frames_cost_what_the_paper_prints(name: str) -> None:
    features, classes, upload, returned = BENCHMARKS[name]
    federation = Federation(GCN((features, 64, classes)), Pace())
    dense = size(federation.start)
    down = 100 * layouts.return_layout(federation).size / dense
    up = 100 * layouts.upload_layout(federation).size / dense
    assert round(down, 1) == returned
    assert round(up, 1) <= upload


@given(shapes, st.integers(0, 999), st.sampled_from(["float16", "int8"]))
@settings(max_examples=80)
def test_narrow_numbers_err_by_no_more_than_their_rounding(
    layout: dict[str, tuple[int, ...]], seed: int, numbers: str
) -> None:
    generator = torch.Generator().manual_seed(seed)
    message = {name: torch.randn(shape, generator=generator) for name, shape in layout.items()}
    frame = wire.encode(message, DIGEST, ANSWERS, numbers)
    agreed = wire.Layout(layout, numbers)
    assert len(frame) == agreed.size
    for expected in (None, agreed):
        opened = wire.decode(frame, expected)
        for name, value in message.items():
            found = opened.message[name]
            assert found.dtype == torch.float32
            assert found.shape == value.shape
            # Half a step of int8, or eleven bits of float16.
            bound = value.abs().max() / 127 / 2 if value.numel() else torch.tensor(0.0)
            near = bound * 1.001 if numbers == "int8" else value.abs() * 2.0**-11 + 1e-7
            assert ((found - value).abs() <= near).all()


def test_each_row_of_the_shorter_side_has_its_own_scale() -> None:
    matrix = torch.tensor([[1.0], [1e-6]]) * torch.linspace(-1, 1, 50)
    for value in (matrix, matrix.t().contiguous()):
        found = wire.decode(wire.encode({"w": value}, DIGEST, numbers="int8")).message["w"]
        assert float(((found - value) / value).abs().max()) < 0.16


def test_counts_stay_exact_and_large_numbers_stay_finite() -> None:
    message = {"nodes": torch.tensor([169343.0]), "a": torch.full((20,), 1e6)}
    for numbers in ("float16", "int8"):
        opened = wire.decode(wire.encode(message, DIGEST, numbers=numbers))
        assert float(opened.message["nodes"]) == 169343
        assert torch.isfinite(opened.message["a"]).all()


def test_numbers_other_than_agreed_are_refused() -> None:
    many = {"a": torch.ones(20)}
    with pytest.raises(WireError, match="bytes"):
        wire.decode(wire.encode(many, DIGEST), wire.layout(many, "float16"))
    few = {"a": torch.ones(2)}  # the same bytes whatever the numbers
    with pytest.raises(WireError, match="float32, expected int8"):
        wire.decode(wire.encode(few, DIGEST), wire.layout(few, "int8"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_int8_returns_cost_a_third_of_float32(name: str) -> None:
    features, classes, *_ = BENCHMARKS[name]
    federation = Federation(GCN((features, 64, classes)), Pace(), numbers="int8")
    down = 100 * layouts.return_layout(federation).size / size(federation.start)
    assert down < (3.5 if features > 400 else 5.5)


def test_a_scale_that_overflows_is_refused_without_a_warning() -> None:
    """int8: a hostile scale times a step is beyond float32."""
    honest = bytearray(wire.encode({"w": torch.ones(2, 20)}, DIGEST, numbers="int8"))
    honest[-4 - 40 - 8 : -4 - 40] = struct.pack("<2f", 3e38, float("inf"))
    with pytest.raises(WireError, match="not finite"):
        wire.decode(sealed(bytes(honest[:-4])))


def test_more_tensors_than_a_frame_counts_are_refused() -> None:
    with pytest.raises(LayoutError, match="256 tensors, a frame holds 255"):
        wire.encode({str(place): torch.zeros(1) for place in range(256)}, bytes(8))


def test_an_empty_tensor_of_an_absurd_shape_is_refused() -> None:
    """It takes no bytes of the frame, and more than there are of memory."""
    frame = wire.framed(wire.Layout({"rows": (0, 2**21, 2**21)}), b"", DIGEST)
    with pytest.raises(LayoutError, match="no tensor of ours"):
        wire.decode(frame)
    empty = wire.framed(wire.Layout({"rows": (0, 2**20)}), b"", DIGEST)
    assert wire.decode(empty).message["rows"].shape == (0, 2**20)
