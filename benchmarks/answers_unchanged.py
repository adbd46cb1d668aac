"""What an evaluation costs where nothing changed: 1,000 questions, three answerers.

    python benchmarks/answers_unchanged.py
    python benchmarks/answers_unchanged.py --questions 200 --repeat 3

A made corpus, BM25, and answers from a language model behind a server on this machine that always
says the same, from a file of predictions, and from the best sentence of the gold context. After a
first evaluation ``rag-assets evaluate`` runs again ``--repeat`` times, each in a process of its
own, imports and all; then a new process evaluates twice, and the second time is printed, as in a
notebook. The server must not be asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import numpy as np
from measured_process import Cost, measured
from zipf_corpus import write_corpus

DOCUMENTS, SEED = 1000, 0
TWICE = """
import sys, time, rag_assets
for _ in range(2):
    wall, cpu = time.perf_counter(), time.process_time()
    rag_assets.evaluate(sys.argv[1], store=sys.argv[2])
    spent = time.perf_counter() - wall, time.process_time() - cpu
print(*spent)
"""


class Model(BaseHTTPRequestHandler):
    """Says the same to everyone, and counts."""

    asked = 0

    def do_POST(self) -> None:
        """Answer one request."""
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "nothing [1]"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 50, "completion_tokens": 3}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": "same"}
        body = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def write_experiment(folder: Path, n_questions: int, base_url: str) -> None:
    """Write the corpus, predictions and ``experiment.yaml``."""
    write_corpus(folder, DOCUMENTS, n_questions, np.random.default_rng(SEED))
    file = folder / "queries.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["answers"] = [" ".join(row["text"].split()[-2:])]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    predictions = {row["query_id"]: row["text"] for row in rows}
    (folder / "predictions.json").write_text(json.dumps(predictions), encoding="utf-8")
    config = {
        "name": "answers_unchanged",
        "dataset": {"format": "jsonl", "judge": "document"},
        "llms": {"same": {"base_url": base_url, "model": "same", "api_key_env": None}},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {"bm25": {"type": "bm25", "chunking": "whole", "analyzer": "whitespace"}},
        "generators": {
            "writer": {"type": "llm", "llm": "same"},
            "predicted": {"type": "file", "path": "predictions.json"},
            "sentences": {"type": "extractive"},
        },
        "answers": {
            "written": {"generator": "writer", "retriever": "bm25"},
            "predicted": {"generator": "predicted"},
            "gold": {"generator": "sentences", "context": "gold", "chunking": "whole"},
        },
        "top_k": [3],
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")


def evaluated(folder: Path, store: Path) -> Cost:
    """Evaluate by the command line, in a process of its own."""
    command = [sys.executable, "-m", "rag_assets.cli", "evaluate", str(folder)]
    return measured([*command, "--store", str(store)])


def main() -> None:
    """Evaluate, again and again; print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        folder, store = Path(place) / "data", Path(place) / "store"
        write_experiment(folder, given.questions, f"http://127.0.0.1:{server.server_port}/v1")
        first = evaluated(folder, store)
        asked = Model.asked
        click.echo(f"first     {first.wall:6.2f} s  {first.cpu:6.2f} CPU s  {asked} requests")
        for _ in range(given.repeat):
            again, load = evaluated(folder, store), os.getloadavg()[0]
            click.echo(f"again     {again.wall:6.2f} s  {again.cpu:6.2f} CPU s  load {load:.1f}")
        wall, cpu = measured([sys.executable, "-c", TWICE, str(folder), str(store)]).printed.split()
        click.echo(f"notebook  {float(wall):6.2f} s  {float(cpu):6.2f} CPU s")
        if Model.asked != asked:
            raise SystemExit(f"{Model.asked - asked} requests where nothing changed")
    server.shutdown()


if __name__ == "__main__":
    main()
