"""Who may talk to the server: requests to its own address, from its own pages, with this start's token.

In: ASGI scopes. Out: 403, or the application's answer. Closes three doors: other hosts' names that resolve to 127.0.0.1
(DNS rebinding; Host), other sites' pages (Origin), other programs on this machine (token). Cookies are the same for all
ports of a host, so the cookie's name has the port in it.
"""

import hmac
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Guard:
    """ASGI middleware for HTTP and WebSocket."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        port = scope["server"][1]
        reason = _stranger(headers, port)
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        by_query = hmac.compare_digest(given.encode(), self._token.encode())
        if reason is None and not by_query and not self._has_cookie(headers, port):
            reason = "this server's token is missing or is another start's: open the address that kernel-lab printed."
        if reason is not None:
            await _refuse(scope, receive, send, reason)
            return

        async def send_with_cookie(message: Message) -> None:
            if by_query and message["type"] == "http.response.start":
                cookie = f"{_cookie_name(port)}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                message = {**message, "headers": [*message.get("headers", []), (b"set-cookie", cookie.encode())]}
            await send(message)

        await self._app(scope, receive, send_with_cookie)

    def _has_cookie(self, headers: dict[str, str], port: int) -> bool:
        """Compared as it was set: http.cookies would take quadratic time for some that only look like one."""
        wanted = f"{_cookie_name(port)}={self._token}".encode()
        return any(
            hmac.compare_digest(cookie.strip().encode(), wanted) for cookie in headers.get("cookie", "").split(";")
        )


def _cookie_name(port: int) -> str:
    return f"kernel_lab_{port}"


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; what is given twice is joined, so that neither of two Hosts is one of ours."""
    headers: dict[str, str] = {}
    for key, value in scope["headers"]:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        headers[name] = f"{headers[name]}; {text}" if name in headers else text
    return headers


def _stranger(headers: dict[str, str], port: int) -> str | None:
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    if headers.get("host") not in hosts:
        return f"Host is {headers.get('host')!r}; this server answers to 127.0.0.1:{port} and localhost:{port} only."
    origin = headers.get("origin")
    if origin is not None and origin not in {f"http://{host}" for host in hosts}:
        return f"Origin is {origin!r}; this server answers its own pages only."
    return None


async def _refuse(scope: Scope, receive: Receive, send: Send, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
        return
    body = (reason + "\n").encode()
    headers: list[Any] = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
