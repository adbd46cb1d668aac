"""What browsers and other programs of this machine send to a server of ours."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rag_assets.servers.local_server import HOST, LocalServer
from tests.running_server import running


async def _slow(_: Request) -> Response:
    time.sleep(1)
    return Response("slow")


@pytest.fixture
def server() -> Iterator[LocalServer]:
    served = LocalServer()
    served.serve(Starlette(routes=[Route("/slow", _slow)]))
    with running(served):
        yield served


def exchanged(server: LocalServer, sent: str) -> bytes:
    """Return all that comes until the server ends the connection."""
    with socket.create_connection((HOST, server.port), timeout=20) as client:
        client.sendall(sent.format(host=f"{HOST}:{server.port}\r\nConnection: close").encode())
        return b"".join(iter(lambda: client.recv(65_536), b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET http://[::1/ HTTP/1.1\r\nHost: {host}\r\n\r\n", b" 404 "),
        (
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            b" 404 ",
        ),
        ("no HTTP\r\n\r\n", b" 400 "),
        ("GET /slow HTTP/1.1\r\nHost: {host}\r\n\r\n", b" 200 "),
        ("GET /slow HTTP/1.1\r\nHost: evil.example\r\n\r\n", b" 404 "),
    ],
)
def test_each_request_is_answered_without_a_line(
    server: LocalServer, capfd: pytest.CaptureFixture[str], sent: str, status: bytes
) -> None:
    assert status in exchanged(server, sent).split(b"\r\n")[0]
    assert capfd.readouterr() == ("", "")
