"""Print how long the labelling page waits for the next item, over HTTP.

    python benchmarks/label_page.py --documents 100000 --retrievers 10 --questions 1000

Documents, questions and runs are made: each retriever has 10 of the 30 passages that a question
could find. Every answer is on the disk before the next item is sent, so the time holds an fsync.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import click
import numpy as np
import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.page.server import LabelServer
from rag_assets.labels.page.session import LabelSession, Passages
from rag_assets.labels.pool import label_pool
from rag_assets.labels.sampling.design import new_design
from rag_assets.labels.sampling.label_sample import SampledPool

DEPTH, CANDIDATES = 10, 30
WORDS = 200
"""Of a document."""


def made_session(n_documents: int, n_retrievers: int, n_questions: int, log: Path) -> LabelSession:
    """Return a session over made texts and runs."""
    generator = np.random.default_rng(5)
    words = np.array([f"word{number}" for number in range(20_000)])
    ids = [f"d{number}" for number in range(n_documents)]
    rows = generator.integers(len(words), size=(n_documents, WORDS))
    texts = [" ".join(words[row]) for row in rows]
    documents = pa.table({"document_id": ids, "title": ids, "text": texts})
    question_ids = [f"q{number}" for number in range(n_questions)]
    asked = [" ".join(words[row]) for row in generator.integers(200, size=(n_questions, 8))]
    queries = pa.table({"query_id": question_ids, "text": asked})
    candidates = generator.integers(n_documents, size=(n_questions, CANDIDATES))
    passages = {}
    for retriever in range(n_retrievers):
        best = generator.permuted(candidates, axis=1)[:, :DEPTH].ravel()
        columns = {
            "query_id": np.repeat(question_ids, DEPTH),
            "rank": np.tile(np.arange(1, DEPTH + 1), n_questions),
            "document_id": [ids[number] for number in best],
            "start": np.zeros(len(best), np.int64),
            "end": [len(texts[number]) for number in best],
        }
        passages[f"r{retriever}"] = pa.table(columns)
    pool = label_pool(passages, question_ids, DEPTH)
    design = new_design(pool.items, pool.weights(Metric("dcg", DEPTH)))
    sampled = SampledPool(pool, design, log, documents)
    return LabelSession(sampled, Passages(documents, queries), Metric("dcg", DEPTH))


@click.command()
@click.option("--documents", default=100_000, show_default=True)
@click.option("--retrievers", default=10, show_default=True)
@click.option("--questions", default=1000, show_default=True)
@click.option("--judgments", default=500, show_default=True)
def main(documents: int, retrievers: int, questions: int, judgments: int) -> None:
    """Answer so many items, one after the other."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        started = time.perf_counter()
        session = made_session(documents, retrievers, questions, Path(folder) / "log.jsonl")
        n_items = len(session.pool.items)
        click.echo(f"{n_items} items, opened in {time.perf_counter() - started:.1f} s")
        server = LabelServer(session, "made")
        thread = threading.Thread(target=server.run)
        thread.start()
        address = urlsplit(server.address)
        connection = http.client.HTTPConnection(address.hostname or "", address.port)

        def ask(path: str, **body: object) -> dict[str, object]:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", address.path + path, json.dumps(body), headers)
            reply: dict[str, object] = json.loads(connection.getresponse().read())
            return reply

        task = ask("next")["task"]
        milliseconds = []
        for number in range(judgments):
            assert isinstance(task, dict), task
            names = ("query_id", "document_id", "start", "end")
            said = {"status": "judged", "grade": number % 2, "evidence": [], "seconds": 1.0}
            at = f"2026-03-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
            began = time.perf_counter()
            task = ask("answer", by="made", at=at, **{name: task[name] for name in names}, **said)[
                "task"
            ]
            milliseconds.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        ask("standing")
        standing = time.perf_counter() - began
        server.server.should_exit = True
        thread.join()
    median, high = np.percentile(milliseconds, [50, 95])
    click.echo(f"next item: median {median:.1f} ms, 95th percentile {high:.1f} ms")
    click.echo(f"how it stands: {standing:.1f} s")


if __name__ == "__main__":
    main()
