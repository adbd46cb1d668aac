"""A server for browsers of this machine: the page of labels, and the reports of a store.

It listens on loopback. A request is answered where its ``Host`` is this server's (other names may
be made to lead here); to others, and to anything that is no plain HTTP request, nothing is there.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_assets.errors import UsageError

HOST = "127.0.0.1"

IDLE_SECONDS = 30.0
"""After so many seconds in which a client neither sends nor waits, its connection ends."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LocalServer:
    """A server at a free port, or at one that is given; :attr:`port` is known before it runs.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise UsageError(f"port {port} of {HOST}: {error.strerror or error}") from error
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{HOST}:{self.port}"

    def serve(self, app: ASGIApp, headers: Mapping[str, str] = HEADERS) -> uvicorn.Server:
        """Return the server of an application; :meth:`run` runs it.

        Args:
            app: what answers.
            headers: of the answer to a request for another host.
        """
        config = uvicorn.Config(
            _OwnHost(app, self.port, headers),
            http=_ImpatientProtocol,
            ws="none",
            access_log=False,
            log_level="error",  # a warning is of a request that is no HTTP
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=5,
        )
        self.server = uvicorn.Server(config)
        return self.server

    def run(self) -> None:
        """Answer until the process is interrupted."""
        with self._socket:
            self.server.run(sockets=[self._socket])


class _OwnHost:
    """Lets requests through that name this server; a body that nobody reads ends its connection."""

    def __init__(self, app: ASGIApp, port: int, headers: Mapping[str, str]) -> None:
        self._app, self._not_found = app, Response("not found\n", 404, headers)
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)  # the lifespan of the server
            return
        headers = Headers(scope=scope)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

        async def received() -> Message:
            nonlocal has_body
            message = await receive()
            has_body = has_body and message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and has_body:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        app = self._app if headers.get("host") in self._hosts else self._not_found
        await app(scope, received, sent)


class _ImpatientProtocol(H11Protocol):
    """A connection that ends when its client neither sends a request nor waits for an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._last_heard = self.loop.time()
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._last_heard = self.loop.time()
        super().data_received(data)

    def _watch(self) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle  # None before the first request
        is_waiting = bool(cycle) and not cycle.response_complete and not cycle.more_body
        if is_waiting:
            self._last_heard = self.loop.time()
        left = self._last_heard + IDLE_SECONDS - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self.loop.call_later(left, self._watch)
