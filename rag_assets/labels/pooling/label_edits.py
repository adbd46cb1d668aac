"""Adds judgments to the label files of a dataset: all of them, or none.

And how qrels of BEIR and of TREC are written, line by line, when judgments are added to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_assets.errors import DataError, UsageError
from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.beir_files import (
    DOCUMENT_KEY,
    LINES,
    QUERY_KEY,
    SCORE_KEY,
    SOURCES_SUFFIX,
    columns_of,
    read_scored_pairs,
)
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.row_files import PARQUET
from rag_assets.sources.strict_json import read_objects
from rag_assets.sources.trec import TrecDataset
from rag_assets.store.atomic import atomic_file
from rag_assets.text_files import ARCHIVE, GZIP
from rag_assets.trec_lines import COMMENT, QrelLine, read_qrel_lines

FOLDER_FORMATS = ("markdown", "jsonl", "csv", "parquet")
"""Formats whose judgments lie in ``judgments.jsonl``."""

Row = Mapping[str, Any]


Replaced = Mapping[int, Row | None]
"""Line number -> the row that takes its place; None: the line goes."""


def label_file(dataset: Dataset) -> Path:
    """Return the file to which judgments are added; it need not exist.

    Raises:
        UsageError: judgments cannot be added to this format.
    """
    if qrels_format(dataset) is not None:
        return _writable(dataset.qrels_files()[0])
    if dataset.format not in FOLDER_FORMATS:
        allowed = ", ".join((*FOLDER_FORMATS, *(kind.format for kind in QRELS_FORMATS)))
        raise UsageError(
            f"judgments cannot be added to a dataset of format {dataset.format}; allowed: "
            f"{allowed}; `rag-assets convert PATH --to jsonl --out FOLDER` converts it"
        )
    if dataset.has_qrels and dataset.qrels_files()[0].suffix != ".jsonl":
        raise UsageError(
            f"{dataset.qrels_files()[0]}: judgments are added to judgments.jsonl only; "
            "convert the file first"
        )
    return dataset.root / "judgments.jsonl"


def _writable(file: Path) -> Path:
    kind = file.suffix.lower()
    if kind in (GZIP, ARCHIVE):
        raise UsageError(f"{file}: is compressed; judgments are added to plain text only")
    if kind in (LINES, PARQUET):
        raise UsageError(
            f"{file}: judgments are added to qrels as .tsv only; convert the file first"
        )
    return file


def sources_file(file: Path) -> Path:
    """Return the file beside qrels of BEIR or TREC that says who judged what."""
    return file.with_name(f"{file.stem}{SOURCES_SUFFIX}")


def write_judgments(
    file: Path, rows: Sequence[Row], replaced: Replaced, check: Callable[[Path], object]
) -> None:
    """Append lines to a ``judgments.jsonl``, and replace some.

    Args:
        file: the file; created when it is not there, removed when no line is left.
        rows: one mapping a line, in the keys of the format.
        replaced: lines that change or go.
        check: reads the finished file before it takes the old one's place.

    Raises:
        DataError: ``check`` finds the result invalid; the file is as it was.
        StoreError: the file cannot be written.
    """
    changes = {line: None if row is None else _line(row) for line, row in replaced.items()}
    _write(file, "", [_line(row) for row in rows], changes, check)


def write_qrels(form: QrelsFormat, file: Path, rows: Sequence[Row], replaced: Replaced) -> None:
    """Append query, document and grade to a file of qrels, and replace some; sources beside it.

    The sources are written first: a source without its judgment does no harm.

    Raises:
        DataError: an id holds what the format cannot.
        StoreError: a file cannot be written.
    """
    new = [*rows, *(row for row in replaced.values() if row is not None)]
    for row in new:
        if not all(form.holds(str(row[key])) for key in ("query_id", "doc_id")):
            problem = f"an id holds {form.forbidden}, which the format cannot: {_line(row)}"
            raise DataError(problem, file=file)
    existing = form.read(file) if file.is_file() else []
    gone = {
        _pair(label.query_id, label.document_id) for label in existing if label.line in replaced
    }
    sources = sources_file(file)
    old = read_objects(sources) if sources.is_file() and gone else []
    dropped = {n: None for n, row in old if _pair(row["query_id"], row["doc_id"]) in gone}
    _write(sources, "", [_line(row) for row in new], dropped, lambda path: None)
    changes = {line: None if row is None else form.line(row) for line, row in replaced.items()}
    _write(file, form.header, [form.line(row) for row in rows], changes, form.read)


def _pair(query_id: object, document_id: object) -> tuple[str, str]:
    return str(query_id), str(document_id)


def _write(
    file: Path,
    header: str,
    lines: Sequence[str],
    changes: Mapping[int, str | None],
    check: Callable[[Path], object],
) -> None:
    target = file.resolve()
    old = target.read_bytes() if target.is_file() else header.encode()
    remaining = []
    for number, raw in enumerate(old.split(b"\n"), start=1):
        line = changes.get(number)
        if number not in changes:
            remaining.append(raw)
        elif line is not None:
            remaining.append(line.encode())
    text = b"\n".join(remaining)
    if text and not text.endswith(b"\n"):
        text += b"\n"
    text += "".join(f"{line}\n" for line in lines).encode()
    if changes and text.strip() in (b"", header.encode().strip()):
        target.unlink()
        return
    with atomic_file(target) as temporary:
        temporary.write_bytes(text)
        if target.is_file():
            temporary.chmod(target.stat().st_mode & 0o777)
        check(temporary)


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


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
