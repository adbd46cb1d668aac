"""Adds judgments to the label files of a dataset: all of them, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.datasets.beir import BeirDataset
from rag_assets.datasets.dataset import Dataset
from rag_assets.datasets.qrels_tsv import DOCUMENT_KEY, QUERY_KEY, SCORE_KEY, read_scored_pairs
from rag_assets.datasets.trec import TrecDataset
from rag_assets.errors import DataError, UsageError
from rag_assets.store.atomic import atomic_file
from rag_assets.trec_lines import read_qrel_lines

DOCUMENT_FORMATS = (BeirDataset, TrecDataset)
"""Formats whose judgments are of whole documents, in a file of qrels."""

FOLDER_FORMATS = ("markdown", "jsonl", "csv", "parquet")
"""Formats whose judgments lie in ``judgments.jsonl``."""

SOURCES_SUFFIX = ".sources.jsonl"
"""Beside qrels of BEIR and TREC, which have no column for it: who judged what."""

_IDS = ("query_id", "doc_id")

Rows = Sequence[Mapping[str, Any]]


def label_file(dataset: Dataset) -> Path:
    """Return the file to which judgments are added; it need not exist.

    Raises:
        UsageError: judgments cannot be added to this format.
    """
    if isinstance(dataset, DOCUMENT_FORMATS):
        return _writable(dataset.qrels_files()[0])
    if dataset.format not in FOLDER_FORMATS:
        allowed = ", ".join((*FOLDER_FORMATS, *(each.format for each in DOCUMENT_FORMATS)))
        raise UsageError(
            f"judgments cannot be added to a dataset of format {dataset.format}; allowed: "
            f"{allowed}; `rag-assets convert PATH --to jsonl --out FOLDER` makes one of it"
        )
    if dataset.has_qrels and dataset.qrels_files()[0].suffix != ".jsonl":
        raise UsageError(
            f"{dataset.qrels_files()[0]}: judgments are added to judgments.jsonl only; "
            "convert the file first"
        )
    return dataset.root / "judgments.jsonl"


def _writable(file: Path) -> Path:
    if file.suffix.lower() == ".gz":
        raise UsageError(f"{file}: is compressed; judgments are added to plain text only")
    return file


def append_judgments(file: Path, rows: Rows, check: Callable[[Path], object]) -> None:
    """Append lines to a ``judgments.jsonl``.

    Args:
        file: the file; created when it is not there.
        rows: one mapping a line, in the keys of the format.
        check: reads the finished file before it takes the old one's place.

    Raises:
        DataError: ``check`` finds the result invalid; the file is as it was.
        StoreError: the file cannot be written.
    """
    _append(file, "", (_line(row) for row in rows), check)


def append_scored_pairs(file: Path, rows: Rows) -> None:
    """Append ``query_id``, ``doc_id`` and ``relevance`` to a BEIR qrels file, sources beside it.

    The sources are written first: a source without its judgment does no harm.

    Raises:
        DataError: an id holds what the format cannot.
        StoreError: a file cannot be written.
    """
    for row in rows:
        if any("\t" in str(row[key]) for key in _IDS):
            raise DataError(f"an id holds a tab, which the format cannot: {_line(row)}", file=file)
    _append_sources(file, rows)
    lines = (f"{row['query_id']}\t{row['doc_id']}\t{row['relevance']}" for row in rows)
    header = f"{QUERY_KEY}\t{DOCUMENT_KEY}\t{SCORE_KEY}\n"
    _append(file, header, lines, lambda path: list(read_scored_pairs(path)))


def append_qrel_lines(file: Path, rows: Rows) -> None:
    """Append ``query 0 document grade`` to qrels of TREC, sources beside them.

    Raises:
        DataError: an id holds white space, which parts the fields.
        StoreError: a file cannot be written.
    """
    for row in rows:
        if any(len(str(row[key]).encode().split()) != 1 for key in _IDS):
            problem = f"an id holds white space, which the format cannot: {_line(row)}"
            raise DataError(problem, file=file)
    _append_sources(file, rows)
    lines = (f"{row['query_id']} 0 {row['doc_id']} {row['relevance']}" for row in rows)
    _append(file, "", lines, lambda path: list(read_qrel_lines(path)))


def _append_sources(file: Path, rows: Rows) -> None:
    sources = file.with_name(f"{file.stem}{SOURCES_SUFFIX}")
    _append(sources, "", (_line(row) for row in rows), lambda path: None)


def _append(file: Path, header: str, lines: Iterable[str], check: Callable[[Path], object]) -> None:
    target = file.resolve()
    old = target.read_bytes() if target.is_file() else header.encode()
    if old and not old.endswith(b"\n"):
        old += b"\n"
    new = "".join(f"{line}\n" for line in lines).encode()
    with atomic_file(target) as temporary:
        temporary.write_bytes(old + new)
        if target.is_file():
            temporary.chmod(target.stat().st_mode & 0o777)
        check(temporary)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
