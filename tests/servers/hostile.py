"""A server on loopback that means harm, and every client that can be sent to one."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.llm.client import ChatRequest, Message
from rag_assets.llm.models import OpenAICompatible, OpenAIEmbeddings
from rag_assets.retrieval.dense.vector_index import dense_table
from rag_assets.retrieval.reranking.server import RerankEndpoint
from rag_assets.servers.client import ServedModelOptions
from rag_assets.servers.transport import Server
from tests.llm.requests import served

KEY = 'sk-5e7a0b+do/not"tell=anyone&9c41'
USER = "ferry-operator-17"
PASSWORD = "hunter2/in+an&address"
QUERY_VALUE = "token+of/queries=42"
SECRETS = (KEY, USER, PASSWORD, QUERY_VALUE)
PIECES = ("sk-5e7a0b", "anyone", "ferry-operator", "hunter2", "queries=42")
"""Of the credentials, without a character that is escaped: they show whatever the nesting."""

VARIABLE = "A_KEY_OF_TESTS"

Encoding = Callable[[str], str]
Answer = Callable[["Handler"], None]


ENCODINGS: Mapping[str, Encoding] = {
    "plain": str,
    "capitals": str.upper,
    "URL": partial(quote, safe=""),
    "URL, small letters": lambda text: re.sub(
        "%..", lambda found: found[0].lower(), quote(text, safe="")
    ),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "JSON": lambda text: json.dumps(text).replace("/", "\\/"),
}


class Hostile:
    """What is answered, and what came in."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.stopping = threading.Event()
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def n_received(self) -> int:
        """Return how many requests came; a client may give up before a busy machine looks."""
        end = time.monotonic() + 5
        while not self.received and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.received)

    @property
    def with_query(self) -> str:
        return f"{self.root}/v1?api_key={quote(QUERY_VALUE, safe='')}"

    @property
    def with_user(self) -> str:
        user = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
        return self.with_query.replace("http://", f"http://{user}@")

    def __enter__(self) -> Hostile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, hostile: Hostile, *rest: Any) -> None:
        self.hostile = hostile
        super().__init__(*rest)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.hostile.received.append((self.path, headers, body))
        self.close_connection = True
        with suppress(OSError):  # the client may be gone
            self.hostile.answer(self)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST  # noqa: N815 (the base class looks for them)

    def send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        named = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        named["Connection"] = "close"
        for name, text in {**named, **{n.replace("_", "-"): t for n, t in headers.items()}}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)

    def drip(self, content: bytes) -> None:
        """Send a byte every now and then, for longer than any test."""
        while not self.hostile.stopping.wait(0.05):
            self.wfile.write(content)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def echo(encode: Encoding, status: int) -> Answer:
    """Return an answer that repeats all that came in: credentials, headers, query."""

    def answer(handler: Handler) -> None:
        told = [*handler.headers.values(), urlsplit(handler.path).query]
        scheme, _, rest = handler.headers.get("Authorization", "").partition(" ")
        told += [rest]
        with suppress(ValueError):
            told += base64.b64decode(rest).decode().partition(":") if scheme == "Basic" else []
        told += [value for _, value in parse_qsl(urlsplit(handler.path).query)]
        text = " | ".join(map(encode, told))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        row = {"object": "embedding", "index": 0, "embedding": text}
        body: dict[str, object] = {
            "error": {"message": text},
            "message": text,
            "detail": text,
            "id": text,
        }
        body |= {"choices": [choice], "data": [row], "results": [text]}
        plain = text.encode("ascii", "replace").decode().replace("\n", " ")[:2000]
        handler.send(json.dumps(body).encode(), status, X_Echo=plain, WWW_Authenticate=plain)

    return answer


def _raw(content: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.wfile.write(content)

    return answer


def _body(content: bytes, coding: str = "identity") -> Answer:
    return lambda handler: handler.send(content, Content_Encoding=coding)


def _drip_body(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    handler.drip(b"[")


def _endless(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while not handler.hostile.stopping.is_set():
        handler.wfile.write(b" " * 2**20)


def _drip_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    handler.drip(b"a")


def _continue(handler: Handler) -> None:
    handler.drip(b"HTTP/1.1 100 Continue\r\n\r\n")


def _hangs(handler: Handler) -> None:
    handler.hostile.stopping.wait(20)


_NUMBER = b"9" * 10_000
_CHAT = b'{"choices": [{"index": 0, "finish_reason": %s, "message": {"content": %s}}]}'
_VECTOR = b'{"data": [{"index": 0, "embedding": %s}], "model": "m", "usage": {"total_tokens": %s}}'
_SCORE = b'{"results": [{"index": %s, "relevance_score": %s}]}'
_POINT = b'[{"points": [{"id": 1, "version": 1, "score": %s}]}]'
_POINTS = b'{"status": "ok", "time": 0, "result": %s}'

ANSWERS: Mapping[str, Answer] = {
    "drips in its body": _drip_body,
    "drips in its head": _drip_head,
    "goes on for ever": _endless,
    "continues for ever": _continue,
    "hangs": _hangs,
    "says nothing": _raw(b""),
    "is no HTTP": _raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "has half a head": _raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "has half a body": _raw(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"choices"'),
    "has two lengths": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
    "has a length below 0": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"),
    "has bad chunks": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}"),
    "has a long head": _raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 500_000 + b"\r\n\r\n"),
    "has status 999": _raw(b"HTTP/1.1 999 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    "has status 204": _raw(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
    "asks to wait a year": lambda h: h.send(b"{}", 429, Retry_After="31536000"),
    "asks to wait for nan": lambda h: h.send(b"{}", 503, Retry_After="nan"),
    "is nested": _body(b"[" * 100_000),
    "is nested in an error": lambda h: h.send(b'{"error":' * 100_000, 500),
    "has no JSON": _body(b"<html>"),
    "is null": _body(b"null"),
    "is a list": _body(b"[[]]"),
    "is no text": _body(bytes(range(256))),
    "is empty": _body(b""),
    "has a long number": _body(b'{"choices": ' + _NUMBER + b', "data": ' + _NUMBER + b"}"),
    "is damaged gzip": _body(gzip.compress(b"{}" * 99)[:30], "gzip"),
    "is no gzip": _body(b"{}", "gzip"),
    "is a bomb": _body(gzip.compress(bytes(17 * 2**20), 1), "gzip"),
    "is in another coding": _body(b"{}", "br"),
    "says half a character": _body(_CHAT % (b'"stop"', b'"\\ud800"')),
    "ends for no word": _body(_CHAT % (b'{"\\ud800": []}', b'"x"')),
    "gives NaN": _body(_VECTOR % (b"[NaN, 1.0]", b"-1")),
    "gives words": _body(_VECTOR % (b'["a"]', b"true")),
    "gives half a base64": _body(_VECTOR % (b'"AAA"', b"1e400")),
    "gives numbers without end": _body(_VECTOR % (b"[1" + b"0" * 400 + b"]", b"9" * 40)),
    "scores NaN": _body(_SCORE % (b"0", b"NaN")),
    "scores without end": _body(_SCORE % (b"0", b"1e999")),
    "scores another": _body(_SCORE % (b"1e3", b"1")),
    "has no points": _body(_POINTS % b"[]"),
    "has points of words": _body(
        _POINTS % b'[{"points": [{"id": 1, "version": 1, "score": NaN}]}]'
    ),
    "has odd points": _body(_POINTS % _POINT % b"[]"),
}


def _chat(endpoint: ServedModelOptions) -> object:
    request = ChatRequest((Message("user", "my text"),))
    return OpenAICompatible(endpoint).answer(request)


def _embed(endpoint: ServedModelOptions) -> object:
    return [vectors.shape for _, vectors in OpenAIEmbeddings(endpoint).embed(["my text"])]


def _rerank(endpoint: ServedModelOptions, dialect: Any) -> object:
    with closing(RerankEndpoint(endpoint, dialect)) as server:
        return server.score("my query", ["my text"])


def _qdrant(endpoint: ServedModelOptions, ask: str) -> object:
    pytest.importorskip("qdrant_client", reason="needs pip install 'rag-assets[qdrant]'")
    from rag_assets.retrieval.dense import qdrant

    server = Server(endpoint.base_url, endpoint.server().key, "api-key", timeout=endpoint.timeout)
    with closing(qdrant.connected(server)) as client:
        if ask == "describe":
            return qdrant.described(client, "c", None, server.secrets)
        named = {"type": "qdrant", "url": "http://localhost", "collection": "c", "exact": True}
        config, facts = qdrant.Qdrant.model_validate(named), {"points": 3, "dimension": 2}
        own = qdrant.PointIndex((), client, config, facts, server.secrets)
        asked = pa.table({"query_id": ["q"], "variant": pa.array([0], pa.int32())})
        return own.search(dense_table(asked, np.ones((1, 2), np.float32)), 1, None)


CLIENTS: Mapping[str, Callable[[ServedModelOptions], object]] = {
    "language model": _chat,
    "embeddings": _embed,
    "rerank_api": partial(_rerank, dialect="cohere"),
    "rerank_api, tei": partial(_rerank, dialect="tei"),
    "qdrant, collection": partial(_qdrant, ask="describe"),
    "qdrant, search": partial(_qdrant, ask="search"),
}
"""Each sends one request, and gives or raises what came of it."""


def endpoint_of(base_url: str, timeout: float = 5) -> ServedModelOptions:
    return served(base_url, api_key_env=VARIABLE, timeout=timeout, retries=0)


def leaked(text: str) -> list[str]:
    """Return the credentials that a text holds in any of the encodings."""
    lower = text.lower()
    pieces = [piece for piece in PIECES if piece in lower]
    return pieces + [
        f"{secret} ({name})"
        for secret in SECRETS
        for name, encode in ENCODINGS.items()
        if encode(secret).strip("\"'b=").lower() in lower
    ]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds
