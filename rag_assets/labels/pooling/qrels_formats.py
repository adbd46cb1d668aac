"""How qrels of BEIR and of TREC are written, line by line, when judgments are added to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.beir_files import (
    DOCUMENT_KEY,
    QUERY_KEY,
    SCORE_KEY,
    columns_of,
    read_scored_pairs,
)
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.trec import TrecDataset
from rag_assets.trec_lines import COMMENT, QrelLine, read_qrel_lines

Row = Mapping[str, Any]


class QrelsFormat(NamedTuple):
    """A file of judgments of whole documents.

    Attributes:
        header: what the file begins with.
        line: the line of a judgment.
        read: all judgments of a file, with their lines.
        holds: whether a text can be an id.
        forbidden: what an id must not hold, for the error.
    """

    header: str
    line: Callable[[Row], str]
    read: Callable[[Path], list[QrelLine]]
    holds: Callable[[str], bool]
    forbidden: str


def _beir_lines(file: Path) -> list[QrelLine]:
    return [
        QrelLine(pair.place.line or 0, pair.query_id, pair.document_id, pair.grade)
        for pair in read_scored_pairs(file)
    ]


_BEIR = QrelsFormat(
    header=f"{QUERY_KEY}\t{DOCUMENT_KEY}\t{SCORE_KEY}\n",
    line=lambda row: f"{row['query_id']}\t{row['doc_id']}\t{row['relevance']}",
    read=_beir_lines,
    holds=lambda name: "\t" not in name,
    forbidden="a tab",
)
_BEIR_OF_FOUR = _BEIR._replace(
    line=lambda row: f"{row['query_id']}\t0\t{row['doc_id']}\t{row['relevance']}"
)
"""As :data:`_BEIR`, with a column of iterations, where the file has one."""

_TREC = QrelsFormat(
    header="",
    line=lambda row: f"{row['query_id']} 0 {row['doc_id']} {row['relevance']}",
    read=lambda file: list(read_qrel_lines(file)),
    holds=lambda name: len(name.encode().split()) == 1 and not name.startswith(COMMENT),
    forbidden="white space, or # in front",
)

QRELS_FORMATS: Mapping[type[BeirDataset | TrecDataset], QrelsFormat] = {
    BeirDataset: _BEIR,
    TrecDataset: _TREC,
}
"""Datasets whose judgments are of whole documents, in a file of qrels."""


def qrels_format(dataset: Dataset) -> QrelsFormat | None:
    """Return how the qrels of a dataset are written; None where judgments are JSON lines."""
    if isinstance(dataset, BeirDataset) and _has_four_columns(dataset.qrels_files()[0]):
        return _BEIR_OF_FOUR
    for kind, form in QRELS_FORMATS.items():
        if isinstance(dataset, kind):
            return form
    return None


def _has_four_columns(file: Path) -> bool:
    return file.suffix.lower() == ".tsv" and file.is_file() and columns_of(file) == 4
