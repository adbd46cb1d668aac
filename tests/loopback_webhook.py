"""A real HTTP server on loopback that takes messages, or refuses them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """What was posted, and the status that is answered."""

    address: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Run the server."""
    told = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.paths.append(self.path)
            told.messages.append(json.loads(body))
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        told.address = f"http://127.0.0.1:{server.server_port}/hooks/a-secret?token=b-secret"
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
