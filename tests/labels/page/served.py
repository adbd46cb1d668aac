"""A labelling page over made documents, served on loopback, and requests to it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.page.server import LabelServer
from rag_assets.labels.page.session import LabelSession, Passages
from rag_assets.labels.pool import Judgment, LabelPool
from rag_assets.labels.sampling.design import new_design
from rag_assets.labels.sampling.label_sample import SampledPool
from tests.labels.health import tables as made
from tests.labels.sampling.made_pool import whole
from tests.running_server import running

TEXTS = {
    "fares": "# Fares\n\nA ticket costs 40 crowns.\n\nDogs need tickets of 10 crowns.",
    "crew": "# Crew\n\nA crew of five sails each ferry.",
    "fire": "# Fire\n\nA fire on the car deck is fought with foam.",
    "winter": "In winter the last ferry leaves at nine.",
}
QUESTIONS = {"q1": "what does a ticket cost", "q2": "how is a fire fought"}


def tables(
    texts: Mapping[str, str] = TEXTS, questions: Mapping[str, str] = QUESTIONS
) -> tuple[pa.Table, pa.Table]:
    return made.documents(texts, title=None), made.queries(questions)


def pool_of(texts: Mapping[str, str], questions: Mapping[str, str], depth: int = 4) -> LabelPool:
    """Return the pool of two systems that rank whole documents in opposite orders."""
    orders = {"hidden-a": list(texts), "hidden-b": list(texts)[::-1]}
    runs = {name: dict.fromkeys(questions, order[:depth]) for name, order in orders.items()}
    return whole(runs, depth, {name: len(text) for name, text in texts.items()})


def session_of(
    log: Path,
    texts: Mapping[str, str] = TEXTS,
    questions: Mapping[str, str] = QUESTIONS,
    earlier: tuple[Judgment, ...] = (),
) -> LabelSession:
    pool = pool_of(texts, questions)
    design = new_design(pool.items, pool.weights(Metric("dcg", 4)))
    documents, queries = tables(texts, questions)
    sampled = SampledPool(pool, design, log, documents, earlier)
    return LabelSession(sampled, Passages(documents, queries), Metric("dcg", 4))


@dataclass
class Client:
    address: str

    def raw(
        self, path: str, body: bytes | None = b"{}", method: str = "POST", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        target = path if path.startswith("/") else parts.path + path
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, body, {"Content-Type": "application/json", **named})
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, content

    def ask(self, path: str, **body: Any) -> Any:
        status, _, content = self.raw(path, json.dumps(body).encode())
        assert status == 200, content
        return json.loads(content)

    def answer(self, by: str, at: str, task: Mapping[str, Any], **other: Any) -> tuple[int, Any]:
        """Answer a task: grade 1 in 2 seconds, unless something else is said."""
        names = ("query_id", "document_id", "start", "end")
        said = {"status": "judged", "grade": 1, "evidence": [], "seconds": 2.0}
        body = {"by": by, "at": at, **{name: task[name] for name in names}, **said, **other}
        status, _, content = self.raw("answer", json.dumps(body).encode())
        return status, json.loads(content)


@contextmanager
def serving(session: LabelSession) -> Iterator[Client]:
    with running(LabelServer(session, "ada")) as server:
        yield Client(server.address)


def moment(number: int) -> str:
    return f"2026-03-01T09:{number // 60:02}:{number % 60:02}.000Z"
