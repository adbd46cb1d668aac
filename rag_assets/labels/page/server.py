"""The server of the labelling page: on this machine alone, behind a token in its address.

It listens on loopback. A request is answered where its ``Host`` is this server's (other names may
be made to lead here), its address holds the token, and neither ``Origin`` nor ``Sec-Fetch-Site``
tells of another page; to others, and to anything that is no plain HTTP request, nothing is there.

The page may load nothing but itself. No path of a file is made from a request, and nothing that is
sent tells which retriever found a passage.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Collection
from datetime import datetime
from importlib import resources
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assets.errors import RagAssetsError, UsageError
from rag_assets.labels.logs import LogLine
from rag_assets.labels.page.session import Actions, LabelSession

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
MAX_BYTES = 100_000

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}


class LabelServer:
    """The page at a free port, or at one that is given; its address holds the token.

    Args:
        session: what is asked, and what becomes of the answers.
        user: who labels, unless the page says another name.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, session: LabelSession, user: str, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise UsageError(f"port {port} of {HOST}: {error.strerror or error}") from error
        self.port: int = self._socket.getsockname()[1]
        token, hosts = secrets.token_urlsafe(32), [f"{name}:{self.port}" for name in NAMES]
        self.address = f"http://{HOST}:{self.port}/{token}/"
        config = uvicorn.Config(
            _guarded(session.actions(user), token, hosts),
            http="h11",
            ws="none",
            access_log=False,
            log_level="error",  # a warning is of a request that is no HTTP
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=5,
        )
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Answer until the process is interrupted."""
        with self._socket:
            self.server.run(sockets=[self._socket])


def _guarded(actions: Actions, token: str, hosts: Collection[str]) -> ASGIApp:
    """Return the application; to requests that do not come from the page, nothing is there."""
    routes = [Route(f"/{token}/{name}", _file(*file)) for name, file in _FILES.items()]
    for name, (body, action) in actions.items():
        routes.append(Route(f"/{token}/{name}", _action(body, action), methods=["POST"]))
    page, prefix = Starlette(routes=routes), f"/{token}/".encode()

    def is_allowed(scope: Scope) -> bool:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        return (
            host in hosts
            and hmac.compare_digest(str(scope["path"]).encode()[: len(prefix)], prefix)
            and headers.get("origin", f"http://{host}") == f"http://{host}"
            and headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
        )

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "lifespan" or is_allowed(scope)
        app = page if is_ours else Response("not found\n", 404, HEADERS)
        await app(scope, receive, send)

    return answer


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    content = resources.files("rag_assets.labels.page").joinpath("files", name).read_bytes()
    return lambda _: Response(content, headers=HEADERS, media_type=media_type)


def _action(kind: type[LogLine], action: Callable[[Any], Any]) -> Any:  # noqa: ANN401 (an endpoint)
    async def answer(request: Request) -> Response:
        try:
            body = msgspec.json.decode(await _body(request), type=kind)
            msgspec.convert(getattr(body, "at", None), datetime | None)  # refuses what is no time
            if problem := body.problem():
                raise UsageError(f"the request is wrong: {': '.join(problem)}")
            return JSONResponse(await run_in_threadpool(action, body), headers=HEADERS)
        except msgspec.DecodeError as error:
            return _refusal(400, f"the request is wrong: {error}")
        except RagAssetsError as error:
            return _refusal(400 if isinstance(error, UsageError) else 500, str(error))

    return answer


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "") != "application/json":
        raise UsageError("a request is JSON")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BYTES:
            raise UsageError(f"a request has at most {MAX_BYTES} bytes")
    return content


def _refusal(status: int, problem: str) -> Response:
    return JSONResponse({"problem": problem}, status, HEADERS)
