"""A server on loopback that answers searches as a function of the test says, and what it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    """A request as it came in; ``body`` is JSON, None where there was no content."""

    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """JSON, or bytes as they are."""

    content: object
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Request], Reply]


class Loopback:
    """The server; ``received`` holds the requests in the order of arrival."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.received: list[Request] = []
        self.stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@contextmanager
def serving(answer: Answer) -> Iterator[Loopback]:
    server = Loopback(answer)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _handler(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and content in one write: TCP holds a second one back

        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                {name.lower(): text for name, text in self.headers.items()},
                json.loads(content) if content else None,
            )
            server.received.append(request)
            with suppress(OSError):  # the client may be gone
                self._send(server.answer(request))

        do_GET = do_HEAD = do_POST  # noqa: N815 (the base class looks for them)

        def _send(self, reply: Reply) -> None:
            raw = reply.content if isinstance(reply.content, bytes) else _json(reply.content)
            self.send_response(reply.status)
            for name, text in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else raw)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
