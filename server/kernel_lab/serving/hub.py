"""What the server holds between requests: the token, the pages that are connected, and large inputs on their way to a
page.

In: connections from the application, calls from the browsing side. Out: messages to and from pages. Lives on one event
loop.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kernel_lab.serving import wire

Planner = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Message = tuple[dict[str, Any], list[memoryview]]


class Disconnected(Exception):
    """The page's connection is gone."""


class Link:
    """One page's connection. `known_wgsl`: the digests whose text the page has been sent."""

    def __init__(self, send: Callable[[bytes], Any]) -> None:
        self._send = send
        self._received: asyncio.Queue[Message | None] = asyncio.Queue()
        self.known_wgsl: set[str] = set()
        self.closed = asyncio.Event()

    async def send(self, message: bytes) -> None:
        """Sends one message; Disconnected if the page is gone."""
        if self.closed.is_set():
            raise Disconnected
        await self._send(message)

    async def receive(self) -> Message:
        """The next message of the page; Disconnected once it is gone and all that came has been read."""
        received = None if self.closed.is_set() and self._received.empty() else await self._received.get()
        if received is None:
            raise Disconnected
        return received

    def deliver(self, message: bytes) -> None:
        """Called by the application with each message; ValueError if it is none."""
        self._received.put_nowait(wire.decode(message))

    def close(self) -> None:
        self.closed.set()
        self._received.put_nowait(None)


class Debugger(Protocol):
    """What answers the debug page (debugging/desk.py). Raises LabError for what it cannot answer."""

    def catalogue(self) -> Mapping[str, Any]: ...

    def specimen(self, body: Mapping[str, Any]) -> bytes: ...

    def element(self, body: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def save(self, body: Mapping[str, Any]) -> str: ...

    def inspect(self, body: Mapping[str, Any]) -> bytes: ...

    def stamp(self, name: str) -> Mapping[str, Any]: ...


class Hub:
    """`token`: new at every start; every request must carry it. `plan`: answers POST /plan; `desk`: the debug page."""

    def __init__(self, plan: Planner, desk: Debugger | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self.plan = plan
        self.desk = desk
        self.served: dict[str, bytes] = {}
        self._waiting: dict[str, asyncio.Future[Link]] = {}

    def expect(self, page: str) -> asyncio.Future[Link]:
        """The connection that the page of that name will make."""
        future: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiting[page] = future
        return future

    def expects(self, page: str) -> bool:
        """Whether anybody waits for that page. A page opened by hand has no session: nobody would read what it sends,
        however much that is. It may only plan.
        """
        future = self._waiting.get(page)
        return future is not None and not future.done()

    def arrived(self, page: str, link: Link) -> bool:
        """Hands a connection to whoever expects it; False if nobody does."""
        future = self._waiting.pop(page, None)
        if future is None or future.done():
            return False
        future.set_result(link)
        return True
