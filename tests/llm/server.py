"""A real HTTP server on loopback that speaks the OpenAI protocol, well or badly, as it is told.

It serves ``/v1/chat/completions``, ``/v1/embeddings`` and ``/rerank`` (also below ``/v1`` and
``/v2``). What is said of the text of a request (the last message, all inputs, or the query)
decides: a rule whose mark occurs in it gives its replies one after the other, the last one for
ever; where no rule applies the server answers properly.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
Writer = Callable[[str], str]
DIMENSION = 4


@dataclass(frozen=True)
class Reply:
    """One HTTP response; ``hang`` seconds come first, and ``cut`` bytes are kept back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: int = 0


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: Body

    @property
    def text(self) -> str:
        """What rules look at."""
        if "messages" in self.body:
            return str(self.body["messages"][-1]["content"])
        return str(self.body.get("query", self.body.get("input", "")))


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, json.dumps(value).encode(), named)


def says(text: str | None, finish_reason: str = "stop", **message: object) -> Reply:
    usage = {"prompt_tokens": 10, "completion_tokens": len((text or "").split())}
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": text, **message},
    }
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny"}
    return json_reply({**head, "choices": [choice], "usage": usage})


def cut_off(text: str) -> Reply:
    return says(text, "length")


def refuses(text: str = "I cannot help with that.") -> Reply:
    return says(None, refusal=text)


def no_choices() -> Reply:
    return json_reply({"id": "x", "object": "chat.completion", "choices": []})


def broken_json() -> Reply:
    return Reply(200, b'{"id": "x", "choices": [{"index": 0, "mess')


def page() -> Reply:
    return Reply(200, b"<html><body>Welcome</body></html>", {"Content-Type": "text/html"})


def error(status: int, message: str = "wrong", **headers: str) -> Reply:
    return json_reply({"error": {"message": message, "type": "made"}}, status, **headers)


class Server:
    def __init__(self, write: Writer) -> None:
        self.write = write
        self.received: list[Received] = []
        self.most_at_once = 0
        self.stopping = threading.Event()
        self._rules: list[tuple[str, list[Reply]]] = []
        self._lock = threading.Lock()
        self._open = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def on(self, mark: str, *replies: Reply) -> None:
        """Answer requests whose text holds ``mark`` by ``replies`` in turn, the last for ever."""
        self._rules.append((mark, list(replies)))

    def forget_rules(self) -> None:
        self._rules.clear()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply(self, request: Received) -> Reply:
        with self._lock:
            self.received.append(request)
            for mark, replies in self._rules:
                if mark in request.text:
                    return replies.pop(0) if len(replies) > 1 else replies[0]
        return self._proper(request)

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self._lock:
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def _proper(self, request: Received) -> Reply:
        if request.path == "/v1/chat/completions":
            return says(self.write(request.text))
        if request.path == "/v1/embeddings":
            return embeddings(request.body)
        if request.path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            return reranked(request.body)
        return error(404, f"no such path: {request.path}")


@contextmanager
def serving(write: Writer = lambda text: f"answer to: {text}") -> Iterator[Server]:
    """Run a server whose proper chat answer is ``write(text of the last message)``."""
    server = Server(write)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def vector(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSION]]


def embeddings(body: Body) -> Reply:
    """Return vectors, the last input first: the protocol orders them by ``index`` only."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = []
    for index, text in reversed(list(enumerate(texts))):
        numbers: object = vector(text)
        if body.get("encoding_format") == "base64":
            numbers = base64.b64encode(struct.pack(f"<{DIMENSION}f", *vector(text))).decode()
        data.append({"object": "embedding", "index": index, "embedding": numbers})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return json_reply({"object": "list", "model": body["model"], "data": data, "usage": usage})


def shared_words(query: str, document: str) -> float:
    """Return the score that the server gives to a document: the share of the query's words."""
    wanted = set(query.lower().split())
    return len(wanted & set(document.lower().split())) / max(len(wanted), 1)


def ordered(text: str) -> str:
    """Return the answer to our listwise prompt: passages by their share of the query's words."""
    (query,) = re.findall(r"^Query: (.*)$", text, re.MULTILINE)
    passages = re.findall(r"^\[(\d+)\] (.*)$", text, re.MULTILINE)
    best_first = sorted(passages, key=lambda pair: -shared_words(query, pair[1]))
    return " > ".join(f"[{number}]" for number, _ in best_first)


def reranked(body: Body) -> Reply:
    """Return the documents by score, as Cohere's and Jina's protocol does."""
    scores = [shared_words(body["query"], str(text)) for text in body["documents"]]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])[: body.get("top_n", len(scores))]
    return json_reply({"results": [{"index": i, "relevance_score": scores[i]} for i in order]})


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            body = json.loads(self.rfile.read(length))
            with suppress(OSError), server.counted():  # a client may be gone by now
                self._send(server.reply(Received(self.path, headers, body)))

        def _send(self, reply: Reply) -> None:
            if reply.hang:
                server.stopping.wait(reply.hang)
            self.send_response(reply.status)
            for name, text in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: len(reply.body) - reply.cut])
            if reply.cut:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
