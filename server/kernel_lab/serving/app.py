"""The FastAPI application: the harness's files, large inputs, `/plan` for pages, and one WebSocket per page.

In: a Hub. Out: an ASGI application. Serves only the files listed at start; changes nothing on disk.
"""

import mimetypes
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import FileResponse, JSONResponse
from starlette.types import ASGIApp
from starlette.websockets import WebSocketDisconnect

from kernel_lab import resources
from kernel_lab.errors import LabError
from kernel_lab.serving.guard import Guard
from kernel_lab.serving.hub import Disconnected, Hub, Link

MAX_PLAN_BYTES = 1024 * 1024
_SERVED = {".js", ".html", ".css", ".svg", ".map"}


def harness_files(folder: Path | None = None) -> dict[str, Path]:
    """The harness's own files by name; nothing below node_modules, no configuration."""
    root = folder or resources.js_harness()
    return {path.name: path for path in sorted(root.iterdir()) if path.is_file() and path.suffix in _SERVED}


def create_app(hub: Hub) -> ASGIApp:
    """The application, behind its guard. The harness's files are looked up anew for each request, so edits show on
    reload.
    """
    app = FastAPI(title="kernel-lab", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    async def index() -> Response:
        return _file("index.html")

    @app.get("/harness/{name}")
    async def harness(name: str) -> Response:
        return _file(name)

    @app.get("/blobs/{page}/{number}/{name}")
    async def blob(page: str, number: int, name: str) -> Response:
        data = hub.served.get(f"/blobs/{page}/{number}/{name}")
        if data is None:
            return _not_found(f"no input {name!r} is waiting for run {number}.")
        return Response(data, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @app.post("/plan")
    async def plan(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_PLAN_BYTES:
                return _problem(413, f"a request to /plan may have {MAX_PLAN_BYTES:,} bytes.")
        try:
            return JSONResponse(dict(hub.plan(_json(body))))
        except LabError as error:
            return _problem(400, str(error))

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


def _file(name: str) -> Response:
    path = harness_files().get(name)
    if path is None:
        return _not_found(f"the harness has no file {name!r}.")
    kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0]
    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


def _json(body: bytes) -> dict[str, Any]:
    import json

    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise LabError("the body of POST /plan must be JSON.") from None
    if not isinstance(data, dict):
        raise LabError("the body of POST /plan must be a JSON object.")
    return data


def _not_found(sentence: str) -> Response:
    return _problem(404, sentence)


def _problem(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)
