"""The FastAPI application: the harness's files, large inputs, `/plan` for pages, and one WebSocket per page.

In: a Hub. Out: an ASGI application. Serves only the files listed at start; changes nothing on disk.
"""

import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response, WebSocket
from fastapi.responses import FileResponse, JSONResponse
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from kernel_lab import resources
from kernel_lab.errors import LabError
from kernel_lab.serving.guard import Guard
from kernel_lab.serving.hub import Debugger, Disconnected, Hub, Link

MAX_PLAN_BYTES = 1024 * 1024
_BYTES = "application/octet-stream"
_SERVED = {".js", ".html", ".css", ".svg", ".map"}


def harness_files(folder: Path | None = None) -> dict[str, Path]:
    """The harness's own files by name, and those of its debug page as debug/NAME; no configuration, nothing else."""
    root = folder or resources.js_harness()
    found = [*root.iterdir(), *(root / "debug").glob("*")]
    files = {path.relative_to(root).as_posix(): path for path in sorted(found)}
    return {name: path for name, path in files.items() if path.is_file() and path.suffix in _SERVED}


def create_app(hub: Hub) -> ASGIApp:
    """The application, behind its guard. The harness's files are looked up anew for each request, so edits show on
    reload.
    """
    app = FastAPI(title="kernel-lab", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)

    @app.get("/")
    async def index() -> Response:
        return _file("index.html")

    @app.get("/harness/{name:path}")
    async def harness(name: str) -> Response:
        return _file(name)

    @app.get("/blobs/{page}/{number}/{name}")
    async def blob(page: str, number: int, name: str) -> Response:
        data = hub.served.get(f"/blobs/{page}/{number}/{name}")
        if data is None:
            return _not_found(f"no input {name!r} is waiting for run {number}.")
        return Response(data, media_type=_BYTES, headers={"Cache-Control": "no-store"})

    @app.post("/plan")
    async def plan(request: Request) -> Response:
        return await _answered(request, lambda asked: JSONResponse(dict(hub.plan(asked))))

    if hub.desk is not None:
        app.include_router(debug_routes(hub.desk))

    @app.websocket("/session")
    async def session(socket: WebSocket, page: str = "") -> None:
        await socket.accept()

        async def send(data: bytes) -> None:
            try:
                await socket.send_bytes(data)
            except (WebSocketDisconnect, RuntimeError):  # RuntimeError: closed already, says Starlette
                raise Disconnected from None

        link = Link(send)
        hub.arrived(page, link)
        try:
            while True:
                link.deliver(await socket.receive_bytes())
        except WebSocketDisconnect:
            pass
        except KeyError:  # a text message, which no page of ours sends
            await socket.close(1003, "no message: text instead of bytes")
        except ValueError as error:
            await socket.close(1003, f"no message: {error}"[:120])
        finally:
            link.close()

    return Guard(app, hub.token)


def debug_routes(desk: Debugger) -> APIRouter:
    """The debug page, and what it asks for."""
    router = APIRouter(prefix="/debug")

    @router.get("")
    async def page() -> Response:
        return _file("debug.html")

    @router.get("/catalogue")
    async def catalogue() -> Response:
        return _sentenced(lambda: JSONResponse(dict(desk.catalogue())))

    @router.post("/specimen")
    async def specimen(request: Request) -> Response:
        return await _answered(request, lambda asked: Response(desk.specimen(asked), media_type=_BYTES))

    @router.post("/element")
    async def element(request: Request) -> Response:
        return await _answered(request, lambda asked: JSONResponse(dict(desk.element(asked))))

    @router.get("/stamp/{name}")
    async def stamp(name: str) -> Response:
        return _sentenced(lambda: JSONResponse(dict(desk.stamp(name))))

    return router


async def _answered(request: Request, answer: Callable[[dict[str, Any]], Response]) -> Response:
    """What the JSON of a request's body is answered with."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_PLAN_BYTES:
            return _problem(413, f"a request to {request.url.path} may have {MAX_PLAN_BYTES:,} bytes.")
    return _sentenced(lambda: answer(_json(body, request.url.path)))


def _sentenced(answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except LabError as error:
        return _problem(400, str(error))


def _file(name: str) -> Response:
    path = harness_files().get(name)
    if path is None:
        return _not_found(f"the harness has no file {name!r}.")
    kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0]
    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


def _json(body: bytes, path: str) -> dict[str, Any]:
    import json

    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise LabError(f"the body of POST {path} must be JSON.") from None
    if not isinstance(data, dict):
        raise LabError(f"the body of POST {path} must be a JSON object.")
    return data


def _not_found(sentence: str) -> Response:
    return _problem(404, sentence)


def _problem(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)
