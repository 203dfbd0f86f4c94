"""The wire format: what goes in comes out, and whatever is no message is a ValueError, never another error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.serving import wire

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(header=st.dictionaries(st.text(max_size=5), JSON, max_size=4), blobs=st.lists(st.binary(max_size=9), max_size=5))
def test_decode_undoes_encode(header: dict[str, object], blobs: list[bytes]) -> None:
    message = wire.encode(header, blobs)
    found, views = wire.decode(message)
    assert found == {**header, "blobs": [len(blob) for blob in blobs]}
    assert [bytes(view) for view in views] == blobs


@given(blobs=st.lists(st.binary(max_size=9), max_size=5), text=st.text(max_size=9))
def test_header_and_every_blob_begin_at_a_multiple_of_4(blobs: list[bytes], text: str) -> None:
    message = wire.encode({"text": text}, blobs)
    size = int.from_bytes(message[:4], "little")
    assert (4 + size) % 4 == len(message) % 4 == 0
    assert len(message) == 4 + size + sum(len(blob) + -len(blob) % 4 for blob in blobs)


def test_layout_byte_for_byte() -> None:
    assert wire.encode({}, [b"abc"]) == b"\x10\0\0\0" + b'{"blobs":[3]}   ' + b"abc\0"


def test_blobs_are_views_and_not_copies() -> None:
    message = bytearray(wire.encode({}, [b"abcd"]))
    _, (view,) = wire.decode(message)
    message[-4:] = b"ABCD"
    assert bytes(view) == b"ABCD"


def _message(header: bytes, rest: bytes = b"") -> bytes:
    return len(header).to_bytes(4, "little") + header + rest


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "fewer than 4 bytes"),
        (b"\x01\0\0", "fewer than 4 bytes"),
        (b"\x05\0\0\0{}", "a header of 5 bytes in a message of 6"),
        (b"\xff\xff\xff\xff", "a header of 4294967295 bytes"),
        (_message(b"{"), "Expecting property name"),
        (_message(b"\xff\xfe[\0]\0"), "codec can't decode"),
        (_message(b"[1]"), "no object"),
        (_message(b'{"blobs":3}'), "blobs are no list"),
        (_message(b'{"blobs":[4]}', b"abc"), "a blob of 4 bytes beyond"),
        (_message(b'{"blobs":[-1]}', b"abc"), "a blob of -1 bytes"),
        (_message(b'{"blobs":["3"]}', b"abc"), "a blob of '3' bytes"),
        (_message(b'{"blobs":[1.5]}', b"abc"), "a blob of 1.5 bytes"),
        (_message(b'{"blobs":[true]}', b"abc"), "a blob of True bytes"),
        (_message(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed(message: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        wire.decode(message)


@given(blobs=st.lists(st.binary(max_size=9), max_size=3), cut=st.integers(0, 60))
def test_a_message_cut_anywhere_decodes_whole_or_is_refused(blobs: list[bytes], cut: int) -> None:
    message = wire.encode({"a": 1}, blobs)[:cut]
    try:
        header, views = wire.decode(message)
    except ValueError:
        return
    assert [bytes(view) for view in views] == blobs
    assert header["a"] == 1


@given(message=st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_value_error(message: bytes) -> None:
    try:
        header, _ = wire.decode(message)
    except ValueError:
        return
    json.dumps(header)
