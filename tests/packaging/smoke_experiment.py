"""Evaluates a small experiment by all large packages, and says which rag_assets did it.

Run by the Python of an environment, in an empty folder; nothing of the tests is imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import rag_assets
from rag_assets.analysis.result import EvaluationResult

TEXTS = {
    "ferry": "The ferry to the island leaves at nine from the northern pier.",
    "pump": "Check the bilge pump before every crossing, and log its pressure.",
    "rope": "A mooring rope is replaced when a strand is cut.",
}
QUERIES = {"q1": ("When does the ferry leave?", "ferry"), "q2": ("bilge pump pressure", "pump")}
CONFIG = """
dataset: {format: jsonl}
chunking:
  small: {strategy: recursive, max_tokens: 40, overlap: 5}
  lines: {strategy: sentences}
retrievers:
  words: {type: bm25, chunking: lines, variant: okapi, analyzer: english}
  vectors: {type: embedding, chunking: small, model: sentence-transformers/all-MiniLM-L6-v2}
  both: {type: rrf, inputs: [words, vectors]}
top_k: [2]
metrics: [recall, ndcg]
primary: recall@2
"""


def lines(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def main() -> None:
    """Evaluate, and print what came out as one line of JSON."""
    folder = Path("sample")
    folder.mkdir()
    documents = [{"doc_id": name, "text": text} for name, text in TEXTS.items()]
    queries = [{"query_id": name, "text": text} for name, (text, _) in QUERIES.items()]
    labels = [{"query_id": name, "doc_id": found} for name, (_, found) in QUERIES.items()]
    (folder / "documents.jsonl").write_text(lines(documents))
    (folder / "queries.jsonl").write_text(lines(queries))
    (folder / "judgments.jsonl").write_text(lines([{**row, "relevance": 1} for row in labels]))
    (folder / "experiment.yaml").write_text(CONFIG)
    command = Path(sys.executable).with_name("rag-assets")
    subprocess.run([command, "evaluate", folder, "--store", "store"], check=True)
    result = EvaluationResult.current(Path("store") / "sample")
    cells = result.query_metrics(result.primary.cutoff or 0)
    means = {name: sum(t["recall"].to_pylist()) / t.num_rows for name, t in cells.items()}
    explorer: list[str | Path] = ["--explorer", "--out", "page.html"]
    subprocess.run([command, "report", folder, "--store", "store", *explorer], check=True)
    page = Path("page.html").read_text(encoding="utf-8")
    is_page = "Plotly" in page and "<style" in page
    shown = {"package": rag_assets.__file__, "recall": means, "report": is_page}
    sys.stdout.write(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main()
