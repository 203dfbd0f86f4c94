"""What travels between Python and the page: one frame each way for a run, digests before bytes, no text twice."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.serving import frames, hub, wire
from kernel_lab.serving.frames import Job
from kernel_lab.serving.hub import Link

MakeJob = Callable[..., Job]
FIXTURE = json.loads((Path(__file__).parent / "wire_message.json").read_text("utf-8"))
SMALL_FRAME_BYTES = 4096
"""A run of a few elements and its answer fit into this; the large case's bytes do not."""


class Traffic:
    """The messages as the server sent and received them, and the page's requests as Chromium's own DevTools saw them.
    `told`: the WebSocket messages that DevTools saw.
    """

    def __init__(self, on_page: Callable[..., Any]) -> None:
        self.to_page: list[bytes] = []
        self.from_page: list[bytes] = []
        self.requests: list[tuple[str, str]] = []
        self.told = 0
        self._on_page = on_page

    async def listen(self, page: Page) -> Any:
        session = await page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", self._tell)
        session.on("Network.webSocketFrameSent", self._tell)
        session.on("Network.requestWillBeSent", lambda said: self._asked(said["request"]))
        await session.send("Network.enable")
        return session

    def clear(self) -> None:
        for seen in (self.to_page, self.from_page, self.requests):
            seen.clear()

    def settle(self) -> "Traffic":
        """Waits until everything that the page did so far has been told: an answer comes after what happened before."""
        self._on_page(lambda page: page.evaluate("() => 0"))
        return self

    def _tell(self, _: object) -> None:
        self.told += 1

    def _asked(self, request: dict[str, Any]) -> None:
        self.requests.append((request["method"], request["url"]))


@pytest.fixture
def traffic(lab: Lab, on_page: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Traffic]:
    seen = Traffic(on_page)
    send = Link.send

    async def sending(self: Link, message: bytes) -> None:
        seen.to_page.append(bytes(message))
        await send(self, message)

    def decoding(message: bytes) -> Any:
        seen.from_page.append(bytes(message))
        return wire.decode(message)

    monkeypatch.setattr(Link, "send", sending)
    monkeypatch.setattr(hub, "wire", SimpleNamespace(decode=decoding))
    session = on_page(seen.listen)
    yield seen
    with contextlib.suppress(PlaywrightError):  # a test may have closed that page
        on_page(lambda _: session.detach())


def test_nobody_who_listens_to_the_page_is_told_of_its_messages(
    lab: Lab, job: MakeJob, traffic: Traffic, in_page: Callable[..., Any]
) -> None:
    """Playwright listens to every page it opens: each message would travel three times more, in base64."""
    assert lab.run(job("copy")).equal == {"y"}
    assert (traffic.settle().told, len(traffic.to_page), len(traffic.from_page)) == (0, 1, 1)

    async def expected() -> None:
        lab.host.hub.expect("own")

    lab.host.call(expected())
    in_page("""async () => {
      const { socketOf } = await import("/harness/session.js");
      const { encode } = await import("/harness/wire.js");
      const socket = socketOf("?page=own");
      await new Promise((resolve) => { socket.onopen = resolve; });
      socket.send(encode({}));
      socket.close();
      await new Promise((resolve) => { socket.onclose = resolve; });
    }""")
    assert traffic.settle().told == 1  # of a page's own it is told


def test_small_run_is_one_frame_each_way_and_no_request(lab: Lab, job: MakeJob, traffic: Traffic) -> None:
    result = lab.run(job("copy"))
    assert result.equal == {"y"}
    traffic.settle()
    assert len(traffic.to_page) == 1
    assert len(traffic.from_page) == 1
    assert traffic.requests == []
    header, blobs = wire.decode(traffic.to_page[0])
    assert header["type"] == "run"
    assert np.frombuffer(blobs[0], np.uint32).tolist() == [11, 22, 0, 44, 55, 66, 4294967295]


def test_large_input_is_fetched_exactly_once(lab: Lab, job: MakeJob, traffic: Traffic) -> None:
    large = job("copy", "large")
    assert len(large.inputs["x"]) > frames.INLINE_BYTES
    assert lab.run(large).equal == {"y"}
    traffic.settle()
    assert [method for method, _ in traffic.requests] == ["GET"]
    (frame,) = traffic.to_page
    assert len(frame) < SMALL_FRAME_BYTES
    header, blobs = wire.decode(frame)
    assert traffic.requests[0][1] == lab.host.address + header["inputs"][0]["url"]
    assert blobs == []
    assert lab.host.hub.served == {}, "what has been fetched is not kept"


@pytest.mark.parametrize(("case", "fetched"), [("largest_inline", 0), ("smallest_fetched", 1)])
def test_size_decides_how_an_input_travels(lab: Lab, job: MakeJob, traffic: Traffic, case: str, fetched: int) -> None:
    assert lab.run(job("copy", case)).equal == {"y"}
    traffic.settle()
    assert len(traffic.requests) == fetched
    assert len(wire.decode(traffic.to_page[0])[1]) == 1 - fetched


def test_equal_bytes_do_not_travel(lab: Lab, job: MakeJob, traffic: Traffic) -> None:
    result = lab.run(job("copy", "large"))
    assert result.equal == {"y"}
    assert result.outputs == {}
    (frame,) = traffic.settle().from_page
    assert len(frame) < SMALL_FRAME_BYTES
    assert wire.decode(frame)[1] == []


def test_differing_bytes_travel(lab: Lab, job: MakeJob, traffic: Traffic) -> None:
    asked = job("off_by_one", "large")
    result = lab.run(asked)
    assert result.equal == frozenset()
    wanted = np.frombuffer(asked.inputs["x"], np.uint32)
    (differing,) = np.nonzero(result.outputs["y"].reshape(-1) != wanted)
    assert differing.tolist() == [5]
    assert result.digests["y"] != asked.expected["y"]
    (frame,) = traffic.settle().from_page
    (blob,) = wire.decode(frame)[1]
    assert len(blob) == wanted.nbytes


def test_bytes_travel_where_nothing_is_expected(lab: Lab, job: MakeJob) -> None:
    asked = job("copy", "large", expected=False)
    result = lab.run(asked)
    assert result.equal == frozenset()
    assert result.digests == {}
    assert result.outputs["y"].tobytes() == asked.inputs["x"]


def test_buffer_that_is_asked_for_travels_too(lab: Lab, job: MakeJob) -> None:
    result = lab.run(job("copy", read=("x", "y")))
    assert result.equal == {"y"}
    for name in ("x", "y"):
        assert result.read[name].tolist() == [11, 22, 0, 44, 55, 66, 4294967295]


def test_wgsl_is_sent_once_to_each_page(lab: Lab, job: MakeJob, traffic: Traffic, on_page: Callable[..., Any]) -> None:
    _close(on_page)
    for variant in ("copy", "twin", "off_by_one", "copy"):
        assert lab.run(job(variant)).status == "ok"
    digests = [item.wgsl.digest for item in (*job("copy").plan.passes, *job("off_by_one").plan.passes)]
    sent = [list(wire.decode(frame)[0]["wgsl"]) for frame in traffic.to_page]
    assert sent == [[digests[0]], [], [digests[1]], []]

    _close(on_page)
    traffic.clear()
    assert lab.run(job("copy")).equal == {"y"}
    (frame,) = traffic.to_page
    assert list(wire.decode(frame)[0]["wgsl"]) == [digests[0]], "a new page has had no text"


def test_prepared_wgsl_is_not_sent_again(lab: Lab, job: MakeJob, traffic: Traffic, on_page: Callable[..., Any]) -> None:
    _close(on_page)
    asked = job("copy")
    lab.prepare([asked.plan])
    assert lab.run(asked).equal == {"y"}
    prepare, run = (wire.decode(frame)[0] for frame in traffic.to_page)
    assert (prepare["type"], run["type"]) == ("prepare", "run")
    assert (len(prepare["wgsl"]), len(run["wgsl"])) == (1, 0)


@pytest.mark.parametrize(
    "sizes", [[], [0], [1], [2], [3], [4], [5, 0, 3], [0, 0, 7, 1], [12, 8, 16, 9], [70_001]], ids=str
)
def test_message_survives_both_languages(in_page: Callable[..., Any], sizes: list[int]) -> None:
    """Python writes, JavaScript reads and writes, Python reads: every byte and number is as it was."""
    random = np.random.default_rng(sum(sizes) + len(sizes))
    blobs = [random.integers(0, 256, size, np.uint8).tobytes() for size in sizes]
    header = {
        "text": "π, \u2028 and 😀",
        "words": [0, 0xFFFFFFFF, 2**53 - 1, -(2**31)],
        "none": None,
        "deep": {"a": [[]]},
    }
    sent = wire.encode(header, blobs)
    returned = base64.b64decode(
        in_page(
            """async (text) => {
              const { decode, encode } = await import("/harness/wire.js");
              const { header, blobs } = decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
              const { blobs: lengths, ...rest } = header;
              if (String(lengths) !== String(blobs.map((blob) => blob.byteLength))) throw new Error("lengths");
              const bytes = new Uint8Array(encode(rest, blobs));
              return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
            }""",
            base64.b64encode(sent).decode(),
        )
    )
    found, received = wire.decode(returned)
    assert found == {**header, "blobs": sizes}
    assert [bytes(blob) for blob in received] == blobs
    assert len(returned) % 4 == 0


def test_fixture_is_what_both_languages_write_and_read(in_page: Callable[..., Any]) -> None:
    """One message, byte by byte, that neither half may drift from; blobs lie at multiples of 4, not of 8."""
    message = bytes.fromhex("".join(FIXTURE["message"]))
    blobs = [bytes.fromhex(text) for text in FIXTURE["blobs"]]
    assert wire.encode(FIXTURE["header"], blobs) == message
    header, read = wire.decode(message)
    assert header == {**FIXTURE["header"], "blobs": [len(blob) for blob in blobs]}
    assert [bytes(blob) for blob in read] == blobs

    written, again, offsets = in_page(
        """async ([header, blobs, message]) => {
          const { decode, encode } = await import("/harness/wire.js");
          const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
          const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
          const read = decode(bytes(message).buffer);
          const written = hex(new Uint8Array(encode(header, blobs.map(bytes))));
          return [written, [read.header, read.blobs.map(hex)], read.blobs.map((blob) => blob.byteOffset)];
        }""",
        [FIXTURE["header"], FIXTURE["blobs"], message.hex()],
    )
    assert bytes.fromhex(written) == message
    assert again == [header, FIXTURE["blobs"]]
    assert {offset % 8 for offset in offsets} == {0, 4}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01\x00",
        b"\xff\xff\xff\x7f{}",
        b"\x04\x00\x00\x00oops",
        b"\x14\x00\x00\x00" + b'{"blobs":[4096]}    ',
    ],
    ids=["empty", "too_short", "header_beyond_end", "no_json", "blob_beyond_end"],
)
def test_what_is_no_message_is_read_by_neither(in_page: Callable[..., Any], message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.decode(message)
    refused = in_page(
        """async (bytes) => {
          const { decode } = await import("/harness/wire.js");
          try { return decode(Uint8Array.from(bytes).buffer) && ""; } catch (error) { return String(error); }
        }""",
        list(message),
    )
    assert refused


def _close(on_page: Callable[..., Any]) -> None:
    on_page(lambda page: page.close())


def test_without_shared_workers_the_page_connects_itself(
    lab_profile: Profile, job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some browsers have none (Chrome on Android, until lately)."""
    new_page = PlaywrightBrowser.new_page
    connected: list[str] = []

    async def poorer(self: PlaywrightBrowser) -> Page:
        page = await new_page(self)
        page.on("websocket", lambda socket: connected.append(socket.url))
        await page.add_init_script("delete globalThis.SharedWorker")
        return page

    monkeypatch.setattr(PlaywrightBrowser, "new_page", poorer)
    with Lab(lab_profile) as lab:
        assert lab.run(job("copy")).equal == {"y"}
    assert len(connected) == 1
