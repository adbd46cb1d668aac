"""Qdrant's own engine, which its client has in itself, behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


def _rounded(answer: Any) -> Any:
    """Return points as JSON: a product of matrices rounds by place, a server's scores do not."""
    for point in answer.points:
        point.score = round(point.score, 6)
    return answer.model_dump(mode="json")


@contextmanager
def serving(engine: Any, key: str | None = None) -> Iterator[str]:
    """Serve the part of the REST interface that a search needs; a key is asked for if given."""
    from qdrant_client import models

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if self._may(name):
                self._answer(engine.get_collection(name).model_dump(mode="json"))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            name = self.path.split("/")[2]
            if self._may(name):
                asked = [models.QueryRequest(**one) for one in json.loads(body)["searches"]]
                found = engine.query_batch_points(name, asked)
                self._answer([_rounded(answer) for answer in found])

        def _may(self, name: str) -> bool:
            if self.headers["api-key"] != key:
                self.send_error(403, "Forbidden")
            elif not engine.collection_exists(name):
                self.send_error(404, "Not Found")
            else:
                return True
            return False

        def _answer(self, result: Any) -> None:
            content = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
