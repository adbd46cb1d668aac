"""Generated questions with their documents as a dataset folder that is read like any other."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import StoreError, UsageError
from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.sources.folder_labels import JUDGMENTS, QUERIES
from rag_assets.sources.record_folders import JSONL_DOCUMENTS
from rag_assets.sources.writers.jsonl import document_lines
from rag_assets.sources.writers.tables import write_lines
from rag_assets.store.atomic import TEMPORARY_MARK, atomic_directory
from rag_assets.store.canonical import canonical_json

EXPERIMENT = "experiment.yaml"
FILES = frozenset({JSONL_DOCUMENTS, f"{QUERIES}.jsonl", f"{JUDGMENTS}.jsonl", EXPERIMENT})

_YAML = """\
dataset: {format: jsonl}
# Questions from one document are not independent: intervals and tests draw documents.
statistics: {cluster: query.source_document}
"""

TAG = "generated"


def check_free(folder: Path, *, force: bool) -> None:
    """Check that a dataset may be written as ``folder``.

    Raises:
        UsageError: something is there, and it is no earlier dataset that ``force`` gives up.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise UsageError(f"{folder}: is there and is no folder; choose a new one")
    names = sorted(path.name for path in folder.iterdir())
    others = [name for name in names if name not in FILES]
    if others:
        raise UsageError(
            f"{folder}: holds {others[0]}, which no generated dataset has; choose a new folder"
        )
    if names and not force:
        raise UsageError(f"{folder}: is there already; choose a new folder, or replace it (force)")


def write_folder(
    questions: pa.Table, documents: pa.Table, folder: Path, *, force: bool = False
) -> None:
    """Write ``folder``, which is there in the end only when all of it is.

    Its ``experiment.yaml`` makes intervals and tests cluster by ``source_document``.

    Args:
        questions: table of :data:`rag_assets.labels.generation.question_generation.QUESTIONS`.
        documents: all documents that are searched, those of the questions among them.
        folder: a new one.
        force: replace an earlier dataset that was written here.

    Raises:
        UsageError: see :func:`check_free`.
        StoreError: the folder cannot be written.
    """
    check_free(folder, force=force)
    rows = dataset_rows(questions, documents)
    aside = folder.with_name(f"{folder.name}{TEMPORARY_MARK}{uuid.uuid4().hex[:12]}")
    with atomic_directory(folder) as temporary:
        write_lines(temporary / JSONL_DOCUMENTS, document_lines(documents))
        write_lines(temporary / f"{QUERIES}.jsonl", map(canonical_json, rows.queries))
        write_lines(temporary / f"{JUDGMENTS}.jsonl", map(canonical_json, rows.judgments))
        (temporary / EXPERIMENT).write_text(_YAML, encoding="utf-8")
        if folder.is_dir() and any(folder.iterdir()):
            folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def check_new_file(file: Path, *, force: bool) -> None:
    """Check that a sheet may be written as ``file``.

    Raises:
        UsageError: it is there, perhaps with the work of people in it, or is a folder.
        StoreError: its folder cannot be looked into.
    """
    try:
        if file.is_dir():
            raise UsageError(f"{file}: is a folder; name a file")
        if file.exists() and not force:
            raise UsageError(f"{file}: is there already; choose another, or replace it (force)")
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror or error}") from error


class DatasetRows(NamedTuple):
    """Rows as :mod:`rag_assets.sources.folder_labels` reads them, one mapping a line."""

    queries: list[dict[str, object]]
    judgments: list[dict[str, object]]


def dataset_rows(questions: pa.Table, documents: pa.Table) -> DatasetRows:
    """Return a query and a judgment for each question.

    The judgment quotes the span that the question was made from, with its place; a span that is
    blank, as that of a document without text, is left out: then the whole document is judged.

    Args:
        questions: table of :data:`QUESTIONS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`, those of the questions among them.
    """
    QUESTIONS.check(questions)
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    text_of = dict(zip(ids, texts, strict=True))
    queries: list[dict[str, object]] = []
    judgments: list[dict[str, object]] = []
    for row in questions.to_pylist():
        made_from = {"source_document": row["document_id"], "source": row["source"]}
        answers = {"answers": [row["answer"]]} if row["answer"] else {}
        head = {"query_id": row["query_id"], "text": row["text"], "tags": [TAG]}
        queries.append({**head, **answers, **made_from})
        quote = text_of[row["document_id"]][row["start"] : row["end"]]
        span = {"quote": quote, "start": row["start"]} if quote.strip() else {}
        judged = {"query_id": row["query_id"], "doc_id": row["document_id"]}
        judgments.append({**judged, **span, "relevance": 1, "source": row["source"]})
    return DatasetRows(queries, judgments)
