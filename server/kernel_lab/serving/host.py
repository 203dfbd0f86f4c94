"""uvicorn on 127.0.0.1, on an event loop in a thread of its own; the loop also drives the browsers.

In: a Hub. Out: an address, and `call` to run coroutines from blocking code. One host serves any number of browsers.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

from kernel_lab.errors import LabError
from kernel_lab.serving.hub import Debugger, Hub, Planner

if TYPE_CHECKING:
    import uvicorn

T = TypeVar("T")
MAX_MESSAGE_BYTES = 2**31 - 1
"""Of a page that somebody expects, whose results may be this large; no other page has a session."""
MAX_HEAD_BYTES = 16 * 1024
"""Of a request's address and headers: what h11 keeps of a request that is not complete."""


class Host:
    """Its loop runs from when it is made, and ends with `close`. `address`: http://127.0.0.1:<port>.

    `answering` False: whoever connects waits until `answer`. That spares the start of a browser's driver, which has the
    processor to itself meanwhile, the import of FastAPI, which takes as long.
    """

    def __init__(self, plan: Planner, port: int = 0, *, answering: bool = True, desk: Debugger | None = None) -> None:
        # IPPROTO_TCP spelled out: asyncio switches Nagle's algorithm off only for sockets that name it
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
            self._socket.listen()  # from here on whoever connects is answered, if only once uvicorn has started
        except OSError as error:
            self._socket.close()
            raise LabError(
                f"port {port} of 127.0.0.1 cannot be used: {error.strerror}. Choose another with --port."
            ) from None
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.hub = Hub(plan, desk)
        self._server: uvicorn.Server | None = None
        self._closing = False
        self._error: Exception | None = None
        self._wanted = asyncio.Event()
        if answering:
            self._wanted.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="kernel-lab host", daemon=True)
        self._thread.start()

    def answer(self) -> None:
        """From now on requests are answered. For callers on the host's own loop."""
        self._wanted.set()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the host's loop and waits for it, as `wait` does."""
        return self.wait(self.begin(coroutine))

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the host's loop. LabError if the loop has ended."""
        if self._loop.is_closed():
            coroutine.close()
            raise self._ended()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wait(self, future: Future[T]) -> T:
        """What a coroutine that was begun gives; an interrupt cancels it. LabError if the loop ends meanwhile."""
        try:
            return future.result()
        except CancelledError:
            raise self._ended() from None
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _ended(self) -> LabError:
        return LabError(f"kernel-lab's own server has ended: {self._error or 'it was closed'}.")

    def close(self) -> None:
        """Stops the server and its loop; may be called twice."""
        self._closing = True
        if self._server is not None:
            self._server.should_exit = True
        with contextlib.suppress(RuntimeError):  # closed before
            self._loop.call_soon_threadsafe(self._wanted.set)
        self._thread.join(timeout=10)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # at its end it cancels whoever still waits
            try:
                runner.run(self._main())
            except Exception as error:  # noqa: BLE001 - nobody joins this thread: whoever calls is told
                self._error = error

    async def _main(self) -> None:
        await self._wanted.wait()
        if self._closing:
            return
        server = self._server = await asyncio.to_thread(_server_of, self.hub)  # the loop goes on starting a browser
        if not self._closing:
            await server.serve(sockets=[self._socket])


def _server_of(hub: Hub) -> "uvicorn.Server":
    import uvicorn

    from kernel_lab.serving.app import create_app

    config = uvicorn.Config(
        create_app(hub),
        log_level="error",
        access_log=False,
        lifespan="off",
        http="h11",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        timeout_graceful_shutdown=1,
    )
    config.load()
    return uvicorn.Server(config)
