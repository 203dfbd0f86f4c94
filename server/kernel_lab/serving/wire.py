"""The wire format: one binary message = length, JSON header, blobs. Its other half, with every field, is
js_harness/wire.js.

In: headers and bytes. Out: bytes and headers. Pure. A message is a u32 (little-endian) H, H bytes of UTF-8 JSON padded
with spaces so that 4 + H is a multiple of 4, then the blobs, each padded with zeros to a multiple of 4; `header.blobs`
holds their exact lengths.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Blob = bytes | memoryview


def encode(header: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> bytes:
    """One message."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 4)
    parts: list[Blob] = [len(text).to_bytes(4, "little"), text]
    for blob in blobs:
        parts.append(blob)
        if len(blob) % 4:
            parts.append(bytes(-len(blob) % 4))
    return b"".join(parts)


def decode(message: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Header and blobs; the blobs are views into the message. ValueError if it is no message."""
    view = memoryview(message)
    if len(view) < 4:
        raise ValueError("a message of fewer than 4 bytes")
    size = int.from_bytes(view[:4], "little")
    if 4 + size > len(view):
        raise ValueError(f"a header of {size} bytes in a message of {len(view)}")
    try:
        header = json.loads(str(view[4 : 4 + size], "utf-8"))  # of bytes, json would also take UTF-16
    except RecursionError:
        raise ValueError("a header nested too deeply") from None
    if not isinstance(header, dict) or not isinstance(header.get("blobs", []), list):
        raise ValueError("a header that is no object, or whose blobs are no list")
    blobs: list[memoryview] = []
    at = 4 + size
    for length in header.get("blobs", []):
        if type(length) is not int or length < 0 or at + length > len(view):
            raise ValueError(f"a blob of {length!r} bytes beyond the message's end")
        blobs.append(view[at : at + length])
        at += length + (-length % 4)
    return header, blobs
