"""What the tests of datasets write into files, and a small dataset of every format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.sources import Read
from tests.sources.pdf_files import pdf_file

Files = Mapping[str, str | bytes | None]
"""Name -> content; None leaves a file out."""

Write = Callable[[Files], Path]
ReadAll = Callable[..., tuple[Read, Read, Read]]
Rows = Sequence[Mapping[str, Any]]


def json_lines(rows: Rows) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def csv_text(rows: Rows) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def parquet(columns: Mapping[str, Any] | pa.Table) -> bytes:
    """A small file that is not packed: whoever changes a byte of it changes a value."""
    stream = io.BytesIO()
    table = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
    pq.write_table(table, stream, compression="none", use_dictionary=False)
    return stream.getvalue()


class Layout(NamedTuple):
    """A whole dataset: its format, and each file's content."""

    format: str
    files: dict[str, bytes]

    def lay_out(self, folder: Path, **changed: bytes) -> Path:
        for name, content in {**self.files, **changed}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / "a.json" if "a.json" in self.files else folder


LABELS = {"queries.csv": b"query_id,text\nq,t\n", "judgments.csv": b"query_id,doc_id\nq,d\n"}
EVERY_FORMAT = {
    "beir": Layout(
        "beir",
        {
            "corpus.jsonl": b'{"_id": "d", "text": "t"}\n',
            "queries.jsonl": b'{"_id": "q", "text": "t"}\n',
            "qrels/test.tsv": b"q\td\t1\n",
            "qrels/train.tsv": b"q\td\t1\n",
        },
    ),
    "markdown": Layout(
        "markdown",
        {
            "d.md": b"# T\ntext\n",
            "queries.jsonl": b'{"query_id": "q", "text": "t"}\n',
            "judgments.jsonl": b'{"query_id": "q", "doc_id": "d.md", "quote": "text"}\n',
        },
    ),
    "pages": Layout(
        "markdown",
        {
            "queries.csv": b"query_id,text,tags\nq,t,\n",
            "judgments.csv": b"query_id,doc_id,quote,relevance,evidence_id\nq,a.html,One,2,e\n",
            "a.html": b"<title>T</title><p>One <b>two",
            "b.pdf": pdf_file(["One", "two"]),
        },
    ),
    "jsonl": Layout("jsonl", {**LABELS, "documents.jsonl": b'{"id": "d", "text": "t"}\n'}),
    "csv": Layout("csv", {**LABELS, "documents.csv": b"id,text\nd,t\n"}),
    "parquet": Layout(
        "parquet", {**LABELS, "documents.parquet": parquet({"id": ["d"], "text": ["t"]})}
    ),
    "samples": Layout(
        "samples",
        {"a.json": b'[{"user_input": "t", "reference": "r", "reference_contexts": ["c"]}]'},
    ),
    "llamaindex": Layout(
        "llamaindex",
        {"a.json": b'{"queries": {"q": "t"}, "corpus": {"d": "t"}, "relevant_docs": {"q": ["d"]}}'},
    ),
    "squad": Layout(
        "squad",
        {
            "a.json": b'{"data":[{"title":"T","paragraphs":[{"context":"c","qas":[{"id":"q",'
            b'"question":"?","answers":[{"text":"c","answer_start":0}]}]}]}]}'
        },
    ),
    "trec": Layout("trec", {"topics.t": b"q\tt\n", "qrels": b"q 0 d 1\n", "corpus.tsv": b"d\tt\n"}),
    "trec, packed": Layout(
        "trec",
        {
            "topics.t.gz": gzip.compress(b"q\tt\n"),
            "qrels": b"q 0 d 1\n",
            "corpus.jsonl": b'{"id":"d","text":"t"}\n',
        },
    ),
    "autorag": Layout(
        "autorag",
        {
            "corpus.parquet": parquet({"doc_id": ["d"], "contents": ["t"], "metadata": [{"a": 1}]}),
            "qa.parquet": parquet({"qid": ["q"], "query": ["t"], "retrieval_gt": [[["d"]]]}),
        },
    ),
}
