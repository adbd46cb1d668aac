"""Which hosts are asked, when a request is sent again, and the server of this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from rag_assets.labels.page.server import HOST, LabelServer
from rag_assets.servers.client import Retries
from rag_assets.servers.failures import ServerFailure, refused, retry_after
from rag_assets.servers.secrets import is_loopback
from rag_assets.servers.transport import Server
from tests.llm.requests import asking, completion, model
from tests.llm.server import serving
from tests.running_server import running

HERE = [
    "http://127.0.0.1:8080/v1",
    "http://127.8.9.1",
    "https://LOCALHOST/v1",
    "http://[::1]:80/",
    "http://me:secret@localhost:1",
]
ELSEWHERE = [
    "https://api.openai.com/v1",
    "http://192.168.0.7",
    "http://0.0.0.0:80",
    "http://localhost.example.org",
    "http://127.0.0.1.example.org",
    "http://127.0.0.1@example.org/v1",
    "http://example.org/127.0.0.1",
    "http://2130706433/",  # 127.0.0.1 as some write it: not ours to guess
    "localhost:80",
    "http://[::1",
    "",
]


def test_which_addresses_are_of_this_machine() -> None:
    assert [one for one in (*HERE, *ELSEWHERE) if is_loopback(one)] == HERE


def test_no_proxy_sees_what_is_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server, serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.root)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert completion(model(server).answer(asking("a"))).text == "answer to: a"
        assert (len(server.received), len(proxy.received)) == (1, 0)


@pytest.fixture
def server() -> Iterator[LabelServer]:
    nothing: Any = SimpleNamespace(actions=lambda user: {})
    with running(LabelServer(nothing, "ada")) as served:
        yield served


def exchanged(server: LabelServer, sent: str) -> bytes:
    """Return all that comes until the server ends the connection."""
    host, path = f"{HOST}:{server.port}\r\nConnection: close", urlsplit(server.address).path
    with socket.create_connection((HOST, server.port), timeout=20) as client:
        client.sendall(sent.format(host=host, path=path).encode())
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
        ("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n", b" 200 "),
        ("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n", b" 404 "),
    ],
)
def test_each_request_is_answered_without_a_line(
    server: LabelServer, capfd: pytest.CaptureFixture[str], sent: str, status: bytes
) -> None:
    assert status in exchanged(server, sent).split(b"\r\n")[0]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 2 ", 2.0),
        ("-1", 0.0),
        ("", None),
        ("nan", None),
        (formatdate(1_000_030, usegmt=True), 30.0),
        (formatdate(999_990, usegmt=True), 0.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, now=1_000_000.0) == seconds
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("backoff", "asked", "waits"),
    [
        (1.0, None, [1.0, 2.0, 4.0, 8.0]),
        (20.0, None, [20.0, 40.0, 60.0, 60.0]),
        (1.0, 5.0, [5.0, 5.0, 5.0, 8.0]),
        (1.0, 60.0, [60.0] * 4),
        (1.0, 60.1, []),
    ],
)
def test_waits_before_each_attempt(
    backoff: float, asked: float | None, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr("rag_assets.servers.client.time", clock)
    retries = Retries(4, backoff, Server("http://127.0.0.1"))

    def ask() -> None:
        retries.quiet_until = 0.0
        raise refused(503, "busy", asked)

    with pytest.raises(ServerFailure, match="HTTP 503: busy"):
        retries.answer(ask)
    assert slept == waits


def test_what_is_sent_of_a_user_without_password_is_hidden() -> None:
    server = Server("https://sk-live-1234567890abcd@api.example.com/v1")
    sent = server.credentials["authorization"]
    assert server.secrets.line(f"bad header {sent}") == "bad header Basic [key]"
    keyed = Server("https://api.example.com/v1", "abc/def+ghi-1234567890==")
    assert keyed.secrets.line("at abc/def%2Bghi-1234567890%3D%3D") == "at [key]"
