"""Labels of a dataset that came from feedback: votes change, so these may be replaced.

In ``judgments.jsonl`` each line names its source. Of BEIR and TREC the sources lie beside the
qrels; a row is from feedback when the last source of its pair is, and gave the grade that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.labels.pooling.judgment import Judgment, Key
from rag_assets.labels.pooling.label_files import sources_file
from rag_assets.labels.pooling.qrels_formats import QrelsFormat, qrels_format
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.jsonl import read_objects
from rag_assets.sources.judgments import Quotes, Unlocated

SOURCE = "feedback"
"""How the source of a judgment from feedback begins."""


class Earlier(NamedTuple):
    """A label from feedback: its line in the label file, its grade, and the votes behind it."""

    line: int
    grade: int
    source: str

    def says(self, judgment: Judgment | None) -> bool:
        """Return whether a judgment is this label, votes and all."""
        return judgment is not None and judgment[1:3] == self[1:3]


def earlier_feedback(
    dataset: Dataset, file: Path, documents: pa.Table, keys: Collection[Key]
) -> dict[Key, Earlier]:
    """Return the labels from feedback that are about some of ``keys``.

    Args:
        dataset: one with a file of qrels, or one whose labels lie in ``judgments.jsonl``.
        file: its label file, which is there and valid.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        keys: the units of interest.
    """
    form = qrels_format(dataset)
    found = _of_lines(file, documents) if form is None else _of_qrels(form, file)
    return {key: label for key, label in found if key in keys}


def _is_feedback(row: Mapping[str, Any]) -> bool:
    return str(row.get("source", "")).startswith(f"{SOURCE}: ")


def _of_lines(file: Path, documents: pa.Table) -> Iterator[tuple[Key, Earlier]]:
    place = {name: row for row, name in enumerate(documents.column("document_id").to_pylist())}
    quotes = Quotes(documents)
    for line, row in read_objects(file):
        if not _is_feedback(row):
            continue
        label = Earlier(line, row.get("relevance", 1), row["source"])
        query_id, document_id = str(row["query_id"]), str(row["doc_id"])
        if row.get("quote") is None:
            yield (query_id, document_id, None, None), label
            continue
        if document_id not in place:
            continue  # kept, though it is not in the corpus
        span = quotes.find(row["quote"], place[document_id], row.get("start"))
        if not isinstance(span, Unlocated):
            yield (query_id, document_id, *span), label


def _of_qrels(form: QrelsFormat, file: Path) -> Iterator[tuple[Key, Earlier]]:
    sources = sources_file(file)
    if not sources.is_file():
        return
    last = {(str(row["query_id"]), str(row["doc_id"])): row for _, row in read_objects(sources)}
    for line, query_id, document_id, grade in form.read(file):
        row = last.get((query_id, document_id), {})
        if _is_feedback(row) and row["relevance"] == grade:
            yield (query_id, document_id, None, None), Earlier(line, grade, row["source"])
