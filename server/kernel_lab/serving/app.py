"""The FastAPI application: the harness's files, large inputs, `/plan` for pages, and one WebSocket per page.

In: a Hub. Out: an ASGI application. Serves only the harness's own files, by name; changes nothing on disk. What cannot
be answered is a sentence: `{"error": ...}`.
"""

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response, WebSocket
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from kernel_lab import resources
from kernel_lab.errors import LabError
from kernel_lab.serving import request_body
from kernel_lab.serving.guard import Guard
from kernel_lab.serving.hub import Debugger, Disconnected, Hub, Link

_BYTES = "application/octet-stream"
_SERVED = {".js", ".html", ".css", ".svg", ".map"}
_FOLDERS = ("debug", "stepping", "vendor")


def harness_files(folder: Path | None = None) -> dict[str, Path]:
    """The harness's own files by name, those in its folders as FOLDER/NAME; no configuration, no link to a file of
    another kind.
    """
    root = folder or resources.js_harness()
    folders = (root, *(root / name for name in _FOLDERS))
    files = {path.relative_to(root).as_posix(): path for folder in folders for path in sorted(folder.glob("*"))}
    return {name: path for name, path in files.items() if path.is_file() and _is_served(path)}


def _is_served(path: Path) -> bool:
    return path.suffix in _SERVED and path.resolve().suffix in _SERVED


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
    async def blob(page: str, number: str, name: str) -> Response:
        data = hub.served.get(f"/blobs/{page}/{number}/{name}")
        if data is None:
            return _not_found(f"no input {name!r} is waiting for run {number}.")
        return Response(data, media_type=_BYTES, headers={"Cache-Control": "no-store"})

    @app.post("/plan")
    async def plan(request: Request) -> Response:
        return JSONResponse(dict(hub.plan(await _asked(request))))

    if hub.desk is not None:
        app.include_router(debug_routes(hub.desk))

    @app.websocket("/session")
    async def session(socket: WebSocket, page: str = "") -> None:
        if not hub.expects(page):
            await socket.close(1008, "nobody expects this page")
            return
        await socket.accept()

        async def send(data: bytes) -> None:
            try:
                await socket.send_bytes(data)
            except (WebSocketDisconnect, RuntimeError):  # RuntimeError: closed already, says Starlette
                raise Disconnected from None

        link = Link(send)
        if not hub.arrived(page, link):  # two of that name at once
            await socket.close(1008, "another page of this name was first")
            return
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

    @app.exception_handler(LabError)
    async def refused(_: Request, error: LabError) -> Response:
        return _problem(400, str(error))

    @app.exception_handler(HTTPException)
    async def not_answered(request: Request, error: HTTPException) -> Response:
        return _problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}.", error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return _problem(400, "the request ended before its body did.")

    return Guard(app, hub.token)


def debug_routes(desk: Debugger) -> APIRouter:
    """The debug page, and what it asks for."""
    router = APIRouter(prefix="/debug")

    @router.get("")
    async def page() -> Response:
        return _file("debug.html")

    @router.get("/catalogue")
    async def catalogue() -> Response:
        return JSONResponse(dict(desk.catalogue()))

    @router.post("/specimen")
    async def specimen(request: Request) -> Response:
        return Response(desk.specimen(await _asked(request)), media_type=_BYTES)

    @router.post("/element")
    async def element(request: Request) -> Response:
        return JSONResponse(dict(desk.element(await _asked(request))))

    @router.post("/save")
    async def save(request: Request) -> Response:
        return Response(desk.save(await _asked(request)), media_type="text/html; charset=utf-8")

    @router.post("/inspect")
    async def inspect(request: Request) -> Response:
        return Response(desk.inspect(await _asked(request)), media_type=_BYTES)

    @router.get("/stamp/{name}")
    async def stamp(name: str) -> Response:
        return JSONResponse(dict(desk.stamp(name)))

    return router


async def _asked(request: Request) -> dict[str, Any]:
    """The JSON object that a request's body is. LabError or HTTPException if it is none, or too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > request_body.MAX_BYTES:
            raise HTTPException(413, f"the body of a request may have {request_body.MAX_BYTES:,} bytes")
    return request_body.read(body, request.url.path)


def _file(name: str) -> Response:
    path = harness_files().get(name)
    if path is None:
        return _not_found(f"the harness has no file {name!r}.")
    kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0]
    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


def _not_found(sentence: str) -> Response:
    return _problem(404, sentence)


def _problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)
