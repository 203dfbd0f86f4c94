"""The server alone, spoken to as a browser never would: who may ask, for what, and what a bad message does to it."""

import asyncio
import http.client
import itertools
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from kernel_lab.errors import LabError
from kernel_lab.serving import app, planner, request_body, wire
from kernel_lab.serving import host as hosting
from kernel_lab.serving.host import Host
from kernel_lab.serving.hub import Disconnected, Link

Answer = tuple[int, Mapping[str, str], bytes]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    running = Host(planner.answer)
    yield running
    running.close()


@pytest.fixture(scope="module")
def ask(host: Host) -> Callable[..., Answer]:
    """One request with the token in its cookie, unless other headers are given; the path is sent as it is."""

    def send(path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        return _ask(host, path, method, {"Cookie": _cookie(host)} if headers is None else headers, body)

    return send


def test_page_is_handed_out_for_the_token(ask: Callable[..., Answer], host: Host) -> None:
    status, headers, body = ask(f"/?token={host.hub.token}", headers={})
    assert status == 200
    assert b"/harness/page.js" in body
    assert headers["set-cookie"] == f"{_cookie(host)}; Path=/; HttpOnly; SameSite=Strict"
    status, headers, _ = ask("/harness/page.js")
    assert status == 200
    assert headers["content-type"].startswith("text/javascript")
    assert "set-cookie" not in headers, "the token is told once"


@pytest.mark.parametrize("path", ["/", "/harness/page.js", "/blobs/1/1/x", "/plan", "/nothing"])
@pytest.mark.parametrize("cookie", ["", "{name}=", "{name}={wrong}", "kernel_lab={token}", "{name}={token}x", '"; ='])
def test_nothing_without_the_token(ask: Callable[..., Answer], host: Host, path: str, cookie: str) -> None:
    name = _cookie(host).partition("=")[0]
    given = cookie.format(name=name, token=host.hub.token, wrong="x" * len(host.hub.token))
    status, headers, body = ask(path, headers={"Cookie": given} if given else {})
    assert status == 403
    assert b"token is missing" in body
    assert "set-cookie" not in headers


@pytest.mark.parametrize("token", ["", "x", "%00", "%F0%9F%98%80", "*"])
def test_a_wrong_token_opens_nothing(ask: Callable[..., Answer], token: str) -> None:
    assert ask(f"/?token={token}", headers={})[0] == 403


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", ""]
)
def test_other_names_of_this_machine_are_refused(ask: Callable[..., Answer], host: Host, name: str) -> None:
    """DNS rebinding: a site's own name, resolved to 127.0.0.1, comes with the cookie of nobody but with that Host."""
    named = name.format(port=_port(host))
    status, _, body = ask(f"/?token={host.hub.token}", headers={"Host": named, "Cookie": _cookie(host)})
    assert status == 403
    assert f"Host is {named!r}".encode() in body


@pytest.mark.parametrize("name", ["127.0.0.1:{port}", "localhost:{port}"])
def test_its_own_names_are_answered(ask: Callable[..., Answer], host: Host, name: str) -> None:
    named = name.format(port=_port(host))
    headers = {"Host": named, "Origin": f"http://{named}", "Cookie": _cookie(host)}
    assert ask("/", headers=headers)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", ""])
def test_other_sites_are_refused(ask: Callable[..., Answer], host: Host, origin: str) -> None:
    given = origin.format(port=_port(host))
    status, _, body = ask("/plan", "POST", {"Origin": given, "Cookie": _cookie(host)}, b"{}")
    assert status == 403
    assert b"this server answers its own pages only" in body


@pytest.mark.parametrize(
    "path",
    [
        "/harness/../index.html",
        "/harness/..%2Findex.html",
        "/harness/..%2F..%2Fpyproject.toml",
        "/harness/%2e%2e/pyproject.toml",
        "/harness/....//pyproject.toml",
        "/harness/%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/harness//etc/passwd",
        "/harness/page.js%00.html",
        "/harness/package.json",
        "/harness/tsconfig.json",
        "/harness/globals.d.ts",
        "/harness/node_modules",
        "/harness/",
        "/harness",
        "/index.html",
        "/docs",
        "/openapi.json",
        "/blobs/1/1/x",
        "/blobs/1/one/x",
        "/blobs/1/1/..%2F..%2Fx",
    ],
)
def test_only_listed_files_are_served(ask: Callable[..., Answer], path: str) -> None:
    status, _, body = ask(path)
    assert status == 404, body[:200]
    for secret in (b"root:", b"[project]", b"devDependencies", b"<!doctype"):
        assert secret not in body


def test_what_is_served_is_what_the_harness_needs(ask: Callable[..., Answer]) -> None:
    listed = app.harness_files()
    assert {"page.js", "wire.js", "kernels.js", "index.html", "examples.html"} <= listed.keys()
    assert "vendor/wgsl_reflect.module.js" in listed
    for name, path in listed.items():
        status, _, body = ask(f"/harness/{name}")
        assert (status, body) == (200, path.read_bytes())


def test_waiting_inputs_are_served_as_they_are(ask: Callable[..., Answer], host: Host) -> None:
    host.hub.served["/blobs/9/7/x"] = bytes(range(256))
    try:
        status, headers, body = ask("/blobs/9/7/x")
    finally:
        host.hub.served.clear()
    assert (status, body) == (200, bytes(range(256)))
    assert headers["cache-control"] == "no-store"
    assert ask("/blobs/9/7/x")[0] == 404


REQUEST: dict[str, Any] = {
    "op": "ai.onnx.ConvInteger",
    "version": 1,
    "dtypes": {"x": "uint8", "w": "int8"},
    "shapes": {"x": [1, 1, 2, 2], "w": [1, 1, 1, 1]},
    "attrs": {},
    "facts": {"adapter": {"description": "made up"}, "features": [], "languageFeatures": [], "limits": {}},
}


def test_a_request_is_planned(ask: Callable[..., Answer]) -> None:
    status, answer = _plan(ask, REQUEST)
    assert status == 200
    assert answer["outputs"] == {"y": {"dtype": "int32", "shape": [1, 1, 2, 2]}}
    assert {item["wgsl"] for item in answer["plan"]["passes"]} == answer["wgsl"].keys()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dtypes": {"x": "uint8", "w": "float32"}}, "w: got dtype float32"),
        ({"shapes": {"x": [1, 1, 2, 2], "w": [1, 2, 1, 1]}}, "w"),
        ({"version": 2}, "version: got 2, but there is version 1 only."),
        ({"facts": {**REQUEST["facts"], "adapter": None, "reason": "no usable GPU"}}, "no adapter: no usable GPU"),
    ],
)
def test_what_the_operator_does_not_take_is_a_refusal(
    ask: Callable[..., Answer], change: dict[str, Any], sentence: str
) -> None:
    """The page asked well; the answer is one sentence."""
    status, answer = _plan(ask, {**REQUEST, **change})
    assert status == 200
    assert answer.keys() == {"refused"}
    assert sentence in answer["refused"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"op": "ai.onnx.Nonsense"}, "operator 'ai.onnx.Nonsense' is unknown; known are "),
        ({"op": "../../etc"}, "operator '../../etc' is unknown; known are "),
        ({"op": None}, "op: "),
        ({"shapes": {"x": [1]}}, "dtypes and shapes must name the same inputs"),
        ({"shapes": {"x": [-1], "w": [1]}}, "sizes must be 0 or more"),
        ({"shapes": {"x": "11", "w": [1]}}, "shapes.x: "),
        ({"facts": {}}, "facts.adapter: "),
        ({"facts": {"adapter": {}, "features": 3}}, "facts.features: "),
        ({"variant": "nobody"}, "has no variant 'nobody'"),
        ({"secret": 1}, "secret: "),
    ],
)
def test_what_is_no_request_is_a_problem(ask: Callable[..., Answer], change: dict[str, Any], sentence: str) -> None:
    status, answer = _plan(ask, {**REQUEST, **change})
    assert status == 400
    assert sentence in answer["error"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 60_000],
    ids=["empty", "cut", "list", "number", "bytes", "deep"],
)
def test_what_is_no_json_object_is_a_problem(ask: Callable[..., Answer], body: bytes) -> None:
    status, _, answer = ask("/plan", "POST", None, body)
    assert status == 400
    assert "the body of POST /plan must be" in json.loads(answer)["error"]


def test_a_request_too_large_is_not_read(ask: Callable[..., Answer]) -> None:
    most = request_body.MAX_BYTES
    padding = b" " * (most - len(json.dumps(REQUEST)))
    assert ask("/plan", "POST", None, json.dumps(REQUEST).encode() + padding)[0] == 200
    status, _, answer = ask("/plan", "POST", None, json.dumps(REQUEST).encode() + padding + b" ")
    assert status == 413
    assert json.loads(answer)["error"] == f"POST /plan: the body of a request may have {most:,} bytes."


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "kernel_lab=x"},
        {"Cookie": "{cookie}", "Origin": "http://evil.example"},
        {"Cookie": "{cookie}", "Host": "evil.example"},
    ],
    ids=["no_token", "wrong_cookie", "other_origin", "other_host"],
)
def test_a_strangers_session_is_refused(host: Host, headers: dict[str, str]) -> None:
    given = {name: value.format(cookie=_cookie(host)) for name, value in headers.items()}
    with pytest.raises(InvalidStatus) as refused, _awaited_session(host, given):
        pass
    assert refused.value.response.status_code == 403


MALFORMED = {
    "empty": b"",
    "too_short": b"\x01",
    "header_beyond_end": b"\xff\xff\xff\xff{}",
    "no_json": b"\x04\x00\x00\x00oops",
    "no_text": b"\x04\x00\x00\x00\xff\xfe\xfd\xfc",
    "no_object": b"\x04\x00\x00\x00[]  ",
    "blobs_no_list": wire.encode({}).replace(b'"blobs":[]', b'"blobs":77'),
    "blob_no_number": wire.encode({}).replace(b'"blobs":[]}', b'"blobs":[{}]}').replace(b"\x0c", b"\x10", 1) + b"  ",
    "blob_negative": b"\x10\x00\x00\x00" + b'{"blobs": [-4]} ',
    "blob_beyond_end": b"\x10\x00\x00\x00" + b'{"blobs":[4096]}',
    "too_deep": b"\x40\x0d\x03\x00" + b"[" * 200_000,
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_message_ends_its_own_session_only(host: Host, ask: Callable[..., Answer], message: bytes) -> None:
    with _awaited_session(host) as other, _awaited_session(host) as session:
        session.send(message)
        with pytest.raises(ConnectionClosedError) as closed:
            session.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1003
        assert closed.value.rcvd.reason.startswith("no message: ")
        other.ping().wait(10)
    assert ask("/")[0] == 200


def test_a_text_message_ends_the_session(host: Host) -> None:
    with _awaited_session(host) as session:
        session.send("hello")
        with pytest.raises(ConnectionClosedError) as closed:
            session.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1003


def test_messages_reach_whoever_expects_the_page(host: Host) -> None:
    expected = _expect(host, "mine")
    with _session(host, page="mine") as session:
        session.send(wire.encode({"type": "hello"}, [b"12345", b""]))
        link = host.call(_wait(expected))
        header, blobs = host.call(link.receive())
        assert header == {"type": "hello", "blobs": [5, 0]}
        assert [bytes(blob) for blob in blobs] == [b"12345", b""]
        host.call(link.send(wire.encode({"type": "ping", "id": 1})))
        answer = session.recv(timeout=10)
        assert isinstance(answer, bytes)
        assert wire.decode(answer)[0]["type"] == "ping"


def test_a_connection_that_breaks_is_told_as_disconnected(host: Host) -> None:
    """Also to whoever sends just then, before the loss is known: no error of the server's own gets through."""

    expected = _expect(host, "breaking")
    with _session(host, page="breaking") as session:
        link = host.call(_wait(expected))
        session.socket.shutdown(socket.SHUT_RDWR)
        host.call(asyncio.wait_for(link.closed.wait(), 10))
        with pytest.raises(Disconnected):
            host.call(link.receive())
        with pytest.raises(Disconnected):
            host.call(link.send(b"late"))
        link.closed.clear()
        with pytest.raises(Disconnected):
            host.call(link.send(b"sent all the same"))


def test_two_hosts_do_not_share_cookies(host: Host) -> None:
    """A browser's cookie jar knows hosts but no ports: each server's cookie has its port in its name."""
    second = Host(planner.answer)
    try:
        assert host.hub.token != second.hub.token
        jar = [_ask(one, f"/?token={one.hub.token}", "GET", {}, b"")[1]["set-cookie"] for one in (host, second)]
        names = [cookie.partition("=")[0] for cookie in jar]
        assert names[0] != names[1]
        both = "; ".join(cookie.partition(";")[0] for cookie in jar)
        for one in (host, second):
            assert _ask(one, "/", "GET", {"Cookie": both}, b"")[0] == 200
        assert _ask(second, "/", "GET", {"Cookie": _cookie(host)}, b"")[0] == 403
        renamed = f"{names[1]}={host.hub.token}"
        assert _ask(second, "/", "GET", {"Cookie": renamed}, b"")[0] == 403
    finally:
        second.close()


def test_port_in_use_is_a_sentence(host: Host) -> None:
    with pytest.raises(LabError, match=rf"port {_port(host)} of 127\.0\.0\.1 cannot be used: .*--port"):
        Host(planner.answer, _port(host))


def test_only_this_machine_is_listened_to(host: Host) -> None:
    assert urlsplit(host.address).hostname == "127.0.0.1"
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", _port(host)))


def test_close_may_be_called_twice_and_ends_the_server() -> None:
    closing = Host(planner.answer)
    assert _ask(closing, "/", "GET", {"Cookie": _cookie(closing)}, b"")[0] == 200
    closing.close()
    closing.close()
    with pytest.raises(OSError, match="refused"):
        _ask(closing, "/", "GET", {"Cookie": _cookie(closing)}, b"")


def _port(host: Host) -> int:
    port = urlsplit(host.address).port
    assert port is not None
    return port


def _cookie(host: Host) -> str:
    return f"kernel_lab_{_port(host)}={host.hub.token}"


def _ask(host: Host, path: str, method: str, headers: Mapping[str, str], body: bytes) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", _port(host), timeout=20)
    try:
        connection.request(method, path, body or None, dict(headers))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def _plan(ask: Callable[..., Answer], request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    status, _, body = ask("/plan", "POST", None, json.dumps(request).encode())
    return status, json.loads(body)


def _session(host: Host, headers: Mapping[str, str] | None = None, page: str = "stranger") -> ClientConnection:
    given = {"Cookie": _cookie(host)} if headers is None else dict(headers)
    name = given.pop("Host", None)
    address = f"ws://{name or f'127.0.0.1:{_port(host)}'}/session?page={page}"
    plain = socket.create_connection(("127.0.0.1", _port(host)), timeout=20)
    return connect(address, sock=plain, additional_headers=given, compression=None, proxy=None, max_size=None)


def _expect(host: Host, page: str) -> "asyncio.Future[Link]":
    async def expect() -> "asyncio.Future[Link]":
        return host.hub.expect(page)

    return host.call(expect())


def _awaited_session(host: Host, headers: Mapping[str, str] | None = None) -> ClientConnection:
    """The session of a page that somebody waits for."""
    page = f"awaited {next(_numbers)}"
    _expect(host, page)
    return _session(host, headers, quote(page))


async def _wait(future: "asyncio.Future[Link]") -> Link:
    return await asyncio.wait_for(future, 10)


def test_a_server_that_cannot_be_made_is_a_sentence_and_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI is imported in the host's own thread, while a browser starts: nobody else would hear of its error."""

    def cannot_be_made(_: Any) -> None:
        raise ImportError("no module named fastapi")

    async def wait_for_ever() -> None:
        running.answer()
        await asyncio.Event().wait()

    monkeypatch.setattr(hosting, "_server_of", cannot_be_made)
    running = Host(planner.answer, answering=False)
    try:
        for _ in range(2):  # the second call finds the loop closed
            with pytest.raises(LabError, match=r"server has ended: no module named fastapi\."):
                running.call(wait_for_ever())
            running._thread.join()
    finally:
        running.close()
