"""Turns, one after the other, in the order in which they were asked for.

An asyncio.Lock gives its turns to those who wait for it; here whoever has asked may do something else first, and keeps
his place. Lives on one event loop.
"""

import asyncio


class Turns:
    """A line of turns."""

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    def ask(self) -> "Turn":
        """A place at the end of the line."""
        turn = Turn(self._last)
        self._last = turn.over
        return turn


class Turn:
    """A place in the line: entered as a context once it is wanted, or left with `leave`."""

    def __init__(self, before: "asyncio.Future[None] | None") -> None:
        self._before = before
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> None:
        if self._before is not None and not self._before.done():
            await asyncio.wait([self._before])

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Gives the place up. Who stands behind it still waits for those before it."""
        if self.over.done():
            return
        if self._before is None or self._before.done():
            self.over.set_result(None)
        else:
            self._before.add_done_callback(lambda _: self.leave())
