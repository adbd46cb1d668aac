"""What browsers and other programs of this machine send to a server of ours."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rag_assets.servers import local_server
from rag_assets.servers.local_server import HOST, LocalServer
from tests.running_server import running


async def _slow(_: Request) -> Response:
    time.sleep(1)  # longer than a client may be idle
    return Response("slow")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setattr(local_server, "IDLE_SECONDS", 0.3)
    served = LocalServer()
    served.serve(Starlette(routes=[Route("/slow", _slow)]))
    with running(served):
        yield served


def exchanged(server: LocalServer, sent: str) -> bytes:
    """Return all that comes until the server ends the connection."""
    with socket.create_connection((HOST, server.port), timeout=20) as client:
        client.sendall(sent.format(host=f"{HOST}:{server.port}").encode())
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


@pytest.mark.parametrize("sent", ["", "GET /slow HT", "POST / HTTP/1.1\r\nHost: {host}\r\n"])
def test_a_connection_that_is_idle_ends(server: LocalServer, sent: str) -> None:
    assert exchanged(server, sent) == b""


def test_a_connection_that_is_reset_prints_nothing(
    server: LocalServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for sent in (b"", b"GET / HTTP/1.1\r\n", b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection((HOST, server.port), timeout=20) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(sent)
    assert b" 404 " in exchanged(server, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("length", ["Content-Length: 1000000000", "Transfer-Encoding: chunked"])
def test_a_body_that_nobody_reads_is_cut_off(server: LocalServer, length: str) -> None:
    head = f"POST / HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n{length}\r\n\r\n"
    block = b"ffff\r\n" + 0xFFFF * b"x" + b"\r\n"
    with socket.create_connection((HOST, server.port), timeout=20) as client:
        client.sendall(head.encode())
        with pytest.raises(OSError):  # noqa: PT011 (reset, or a pipe that is broken)
            client.sendall(2_000 * block)
