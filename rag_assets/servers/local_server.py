"""A server for browsers of this machine: the page of labels, and the reports of a store.

It listens on loopback. A request is answered where its ``Host`` is this server's (other names may
be made to lead here); to others, and to anything that is no plain HTTP request, nothing is there.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assets.errors import UsageError

HOST = "127.0.0.1"

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
        hosts = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        not_found = Response("not found\n", 404, headers)

        async def for_this_host(scope: Scope, receive: Receive, send: Send) -> None:
            is_http = scope["type"] == "http"  # the other one is the lifespan of the server
            is_here = not is_http or Headers(scope=scope).get("host") in hosts
            await (app if is_here else not_found)(scope, receive, send)

        config = uvicorn.Config(
            for_this_host,
            http="h11",
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
