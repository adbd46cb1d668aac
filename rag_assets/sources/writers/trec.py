"""Writes TREC folders: ``topics.tsv``, ``qrels.txt`` and ``corpus.jsonl``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rag_assets.sources.writers.tables import (
    Tables,
    corpus_lines,
    counted,
    flat_pairs,
    lost_fields,
    refuse_ids,
    rows_of,
    write_lines,
)
from rag_assets.trec_lines import COMMENT

_LINE_END = re.compile(r"[\r\n]+")


def write_trec(tables: Tables, folder: Path) -> list[str]:
    """Write the tables; of queries only id and text are kept, of qrels the plain pairs.

    Raises:
        DataError: an id holds white space, or begins with ``<``, ``#`` or a byte order mark.
    """
    refuse_ids(
        tables,
        _unfit,
        "holds white space or begins with '<', '#' or a byte order mark: TREC files cannot hold it",
    )
    write_lines(folder / "corpus.jsonl", corpus_lines(tables.documents))
    write_lines(folder / "topics.tsv", _topic_lines(tables.queries))
    grades, notes = flat_pairs(tables.qrels)
    lines = (f"{query} 0 {document} {grade}" for (query, document), grade in grades.items())
    write_lines(folder / "qrels.txt", lines)
    return notes + _query_notes(tables.queries)


def _topic_lines(queries: pa.Table) -> Iterator[str]:
    for row in rows_of(queries):
        yield f"{row['query_id']}\t{_LINE_END.sub(' ', row['text'])}"


def _query_notes(queries: pa.Table) -> list[str]:
    facts: Counter[str] = Counter()
    for row in rows_of(queries):
        facts["lines"] += _LINE_END.search(row["text"]) is not None
        facts["tags"] += bool(row["tags"])
        facts["metadata"] += row["metadata"] != "{}"
    return [
        *counted(
            facts["lines"],
            "query of several lines is written as one line",
            "queries of several lines are written as one line each",
        ),
        *lost_fields(facts),
    ]


def _unfit(name: str) -> bool:
    return any(c.isspace() for c in name) or name.startswith(("<", COMMENT, "\ufeff"))
