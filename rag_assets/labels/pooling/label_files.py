"""Adds judgments to the label files of a dataset: all of them, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.pooling.qrels_formats import QRELS_FORMATS, QrelsFormat, Row, qrels_format
from rag_assets.sources.beir_files import LINES, PARQUET, SOURCES_SUFFIX
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.jsonl import read_objects
from rag_assets.store.atomic import atomic_file
from rag_assets.text_files import ARCHIVE, GZIP

FOLDER_FORMATS = ("markdown", "jsonl", "csv", "parquet")
"""Formats whose judgments lie in ``judgments.jsonl``."""

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
            f"{allowed}; `rag-assets convert PATH --to jsonl --out FOLDER` makes one of it"
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
    known = form.read(file) if file.is_file() else []
    gone = {_pair(one.query_id, one.document_id) for one in known if one.line in replaced}
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
    kept = []
    for number, raw in enumerate(old.split(b"\n"), start=1):
        line = changes.get(number)
        if number not in changes:
            kept.append(raw)
        elif line is not None:
            kept.append(line.encode())
    text = b"\n".join(kept)
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
