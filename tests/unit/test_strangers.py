"""Who and what the server keeps out beyond token, Host and Origin: pages nobody expects, oversized heads, links."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import Message
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from kernel_lab.serving import app, planner
from kernel_lab.serving.guard import Guard
from kernel_lab.serving.host import MAX_HEAD_BYTES, Host
from kernel_lab.serving.hub import Hub

TOKEN = "t" * 32
PORT = 8770
OWN = f"127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    running = Host(planner.answer)
    yield running
    running.close()


# The guard alone, given headers that no client library sends.


def admitted(*headers: tuple[str, str], kind: str = "http") -> bool:
    """Whether the guard lets a request with these headers through."""
    through = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        through.append(scope)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        assert message.get("status", 403) == 403

    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": kind, "headers": encoded, "query_string": b"", "server": ("127.0.0.1", PORT)}
    asyncio.run(Guard(inner, TOKEN)(scope, receive, send))
    return bool(through)


COOKIE = ("cookie", f"kernel_lab_{PORT}={TOKEN}")


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_right_headers_are_let_through(kind: str) -> None:
    assert admitted(("host", OWN), COOKIE, kind=kind)
    assert admitted(("host", OWN), ("origin", f"http://{OWN}"), COOKIE, kind=kind)
    assert admitted(("host", OWN), ("cookie", "other=1"), COOKIE, kind=kind)
    assert admitted(("host", OWN), ("cookie", f"other=1; {COOKIE[1]}; last=2"), kind=kind)


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [
        [COOKIE],
        [("host", "evil.example"), ("host", OWN), COOKIE],
        [("host", OWN), ("host", "evil.example"), COOKIE],
        [("host", OWN), ("origin", "http://evil.example"), ("origin", f"http://{OWN}"), COOKIE],
        [("host", OWN), ("origin", f"http://{OWN}"), ("origin", "http://evil.example"), COOKIE],
        [("host", OWN), ("origin", f"http://{OWN}.evil.example"), COOKIE],
        [("host", OWN), ("cookie", f'kernel_lab_{PORT}="{TOKEN}"')],
        [("host", OWN), ("cookie", f"kernel_lab_{PORT}={TOKEN},")],
        [("host", OWN), ("cookie", f"xkernel_lab_{PORT}={TOKEN}")],
        [("host", OWN), ("cookie", "\xff\xfe=\x00")],
    ],
)
def test_no_header_given_twice_or_nearly_right_is_let_through(kind: str, headers: list[tuple[str, str]]) -> None:
    assert not admitted(*headers, kind=kind)


def test_no_cookie_takes_long_to_look_at(soon: Callable[..., AbstractContextManager[None]]) -> None:
    """Python's own http.cookies takes quadratic time for backslashes in quotes (CVE-2024-7592)."""
    with soon():
        assert not admitted(("host", OWN), ("cookie", f'kernel_lab_{PORT}="' + "\\a" * 500_000 + '"'))


# Pages that nobody expects.


def session(host: Host, page: str) -> Any:
    cookie = f"kernel_lab_{urlsplit(host.address).port}={host.hub.token}"
    address = f"ws://{urlsplit(host.address).netloc}/session?page={page}"
    return connect(address, additional_headers={"Cookie": cookie}, compression=None, proxy=None, max_size=None)


def expect(host: Host, page: str) -> "asyncio.Future[Any]":
    async def expecting() -> "asyncio.Future[Any]":
        return host.hub.expect(page)

    return host.call(expecting())


def test_a_page_that_nobody_expects_has_no_session(host: Host) -> None:
    """It could send messages of 2 GiB, one after the other, that nobody would ever read."""
    for page in ("", "1", "stranger"):
        with pytest.raises(InvalidStatus) as refused, session(host, page):
            pass
        assert refused.value.response.status_code == 403


def test_of_two_pages_of_one_name_the_second_has_no_session(host: Host) -> None:
    expect(host, "twin")
    with session(host, "twin"), pytest.raises(InvalidStatus), session(host, "twin"):
        pass


def test_a_page_that_is_expected_no_longer_has_no_session(host: Host) -> None:
    async def give_up(future: "asyncio.Future[Any]") -> None:
        future.cancel()

    host.call(give_up(expect(host, "late")))
    with pytest.raises(InvalidStatus), session(host, "late"):
        pass


def test_many_strangers_leave_nothing_behind(host: Host) -> None:
    before = len(host.hub._waiting)
    for number in range(50):
        with pytest.raises(InvalidStatus), session(host, f"stranger-{number}"):
            pass
    assert len(host.hub._waiting) == before


# Sizes.


@pytest.mark.parametrize("where", ["address", "header", "headers"])
def test_a_head_that_is_too_large_is_refused_before_it_is_all_read(host: Host, where: str) -> None:
    much = "x" * MAX_HEAD_BYTES
    lines = {
        "address": [f"GET /?token={much} HTTP/1.1"],
        "header": ["GET / HTTP/1.1", f"X-Much: {much}"],
        "headers": ["GET / HTTP/1.1", *(f"X-{number}: {'x' * 100}" for number in range(MAX_HEAD_BYTES // 100))],
    }[where]
    with socket.create_connection(("127.0.0.1", urlsplit(host.address).port), timeout=20) as plain:
        plain.sendall("\r\n".join(lines).encode())  # and no empty line: it might go on for ever
        assert plain.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_a_request_that_ends_before_its_body_does_is_no_fault_of_the_server() -> None:
    sent = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message.get("status"))

    hub = Hub(planner.answer)
    headers = [(b"host", OWN.encode()), (b"cookie", f"kernel_lab_{PORT}={hub.token}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/plan", "query_string": b"", "server": ("127.0.0.1", PORT)}
    asyncio.run(app.create_app(hub)({**scope, "headers": headers}, receive, send))
    assert sent[0] == 400


# Files.


def test_what_is_served_is_in_the_folder_and_of_a_kind_that_is_served(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "harness"
    (folder / "below.js").mkdir(parents=True)
    for name in ("page.js", "package.json", ".env", "notes.txt"):
        (folder / name).write_text(name)
    os.symlink(secret, folder / "link.js")
    os.symlink(tmp_path, folder / "folder.js")
    os.symlink(tmp_path / "nothing.js", folder / "broken.js")
    assert app.harness_files(folder).keys() == {"page.js"}


def test_the_token_is_another_for_each_hub() -> None:
    tokens = {Hub(planner.answer).token for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 32 for token in tokens)
