"""The input of ``grid.py``: a BEIR folder that every contender reads. Standard library only.

Both collections lose their titles (Cranfield repeats them in its texts, those of SQuAD are the
articles') and Cranfield its two empty documents, so that there is one text a document for all.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

SEED = 0
TOP_K = (1, 3, 5, 10, 100)
DEPTH = max(TOP_K)


class Input(NamedTuple):
    """Documents, questions, and query -> document -> grade; grades of 0 are left out."""

    documents: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read(folder: Path) -> Input:
    """Read a BEIR folder."""
    documents = {row["_id"]: row["text"] for row in _lines(folder / "corpus.jsonl")}
    queries = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0:
                qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return Input(documents, queries, qrels)


def write(folder: Path, given: Input) -> None:
    """Write a BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", given.documents), ("queries", given.queries)):
        rows = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    rows = [f"{q}\t{d}\t{grade}" for q, found in given.qrels.items() for d, grade in found.items()]
    lines = ["query-id\tcorpus-id\tscore", *rows]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def cranfield(folder: Path) -> Input:
    """Return Cranfield without its empty documents, of which one is judged."""
    found = read(folder)
    kept = {key: text for key, text in found.documents.items() if text.strip()}
    qrels = {
        query: {key: grade for key, grade in own.items() if key in kept}
        for query, own in found.qrels.items()
    }
    return found._replace(documents=kept, qrels=qrels)


def squad(file: Path) -> Input:
    """Return the paragraphs of a SQuAD file, and its questions that have an answer."""
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            name = f"p{len(documents):05d}"
            documents[name] = paragraph["context"]
            for question in paragraph["qas"]:
                if question["answers"]:
                    queries[question["id"]] = question["question"]
                    qrels[question["id"]] = {name: 1}
    return Input(documents, queries, qrels)


def sample(given: Input, n_queries: int) -> Input:
    """Return the input with so many of its questions, drawn at random; a seed fixes them."""
    if n_queries >= len(given.queries):
        return given
    drawn = set(random.Random(SEED).sample(sorted(given.queries), n_queries))
    queries = {key: text for key, text in given.queries.items() if key in drawn}
    return given._replace(queries=queries, qrels={q: given.qrels[q] for q in queries})


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
