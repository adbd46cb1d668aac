"""Writers: from documents, queries and qrels to the formats of other tools.

One function a format; a new one is added to :data:`WRITERS`. Each counts what its format does not
keep. Evidence becomes plain pairs of query and document for formats that know nothing else.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.beir import CORPUS, DEFAULT_SUBSET, PAIR_KEYS, QRELS
from rag_assets.sources.json_datasets import CORPUS_KEY, QUERIES_KEY, RELEVANT_KEY
from rag_assets.sources.labelled_folder import JSONL_DOCUMENTS, JUDGMENTS, QUERIES
from rag_assets.sources.row_files import COMMENT
from rag_assets.store.atomic import atomic_directory
from rag_assets.store.canonical import canonical_json

BATCH_ROWS = 4096
_LINE_END = re.compile(r"[\r\n]+")

Row = dict[str, Any]
Losses = Counter[str]
"""What a format does not keep -> how often it occurs."""


class Tables(NamedTuple):
    """The three tables of a dataset (``schemas.DOCUMENTS``, ``QUERIES``, ``QRELS``)."""

    documents: pa.Table
    queries: pa.Table
    qrels: pa.Table


def write_dataset(tables: Tables, format: str, folder: Path) -> list[str]:
    """Write tables as ``folder``, which is there in the end only when all of it is.

    Returns:
        One line for each kind of thing that the format does not keep.

    Raises:
        UsageError: the format is unknown, or something is at ``folder`` already.
        DataError: the format cannot hold an id.
        StoreError: the folder cannot be written.
    """
    if format not in WRITERS:
        raise UsageError(f"unknown format to write {allowed_names(format, WRITERS)}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder}: already exists; choose a new folder")
    losses = Losses()
    with atomic_directory(folder) as temporary:
        WRITERS[format](tables, temporary, losses)
    return [f"{loss}: {count}" for loss, count in losses.items() if count]


def write_jsonl(tables: Tables, folder: Path, losses: Losses) -> None:
    """Write ``documents.jsonl``, ``queries.jsonl`` and, where there are labels, judgments.

    JSON lines hold all that the tables hold. A span is written as a quote and its first character.
    A span that is blank cannot be quoted, and a tag without a character is none.
    """
    write_lines(folder / JSONL_DOCUMENTS, document_lines(tables.documents))
    write_lines(folder / f"{QUERIES}.jsonl", _query_lines(tables, losses))
    if tables.qrels.num_rows:
        write_lines(folder / f"{JUDGMENTS}.jsonl", _judgment_lines(tables, losses))


def _query_lines(tables: Tables, losses: Losses) -> Iterator[str]:
    for row in _rows(tables.queries):
        losses["queries whose empty tag is dropped"] += "" in row["tags"]
        tags = [tag for tag in row["tags"] if tag]
        line = {"query_id": row["query_id"], "text": row["text"], "tags": tags}
        yield _line(line, row["metadata"])


def document_lines(documents: pa.Table, id_key: str = "document_id") -> Iterator[str]:
    """Yield documents as lines of ``documents.jsonl``, each id under ``id_key``."""
    for row in _rows(documents):
        line = {id_key: row["document_id"], "title": row["title"], "text": row["text"]}
        yield _line(line, row["metadata"])


def _judgment_lines(tables: Tables, losses: Losses) -> Iterator[str]:
    texts = tables.documents.column("text")
    ids = tables.documents.column("document_id").to_pylist()
    numbers = {document_id: number for number, document_id in enumerate(ids)}
    for row in _rows(tables.qrels):
        line = {"query_id": row["query_id"], "doc_id": row["document_id"]}
        line["relevance"] = row["grade"]
        if row["evidence_id"] != _default_evidence_id(row):
            line["evidence_id"] = row["evidence_id"]
        if row["start"] is not None:
            quote = texts[numbers[row["document_id"]]].as_py()[row["start"] : row["end"]]
            if quote.strip():
                line |= {"quote": quote, "start": row["start"]}
            else:
                losses["blank spans, written as whole documents"] += 1
        yield canonical_json(line)


def write_beir(tables: Tables, folder: Path, losses: Losses) -> None:
    """Write ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``.

    Raises:
        DataError: an id holds a tab, or begins or ends with a blank.
    """
    _refuse_ids(
        tables,
        lambda name: "\t" in name or name != name.strip(" "),
        "holds a tab or begins or ends with a blank: qrels cannot hold it",
    )
    write_lines(folder / f"{CORPUS}.jsonl", document_lines(tables.documents, "_id"))
    write_lines(folder / f"{QUERIES}.jsonl", _beir_query_lines(tables, losses))
    (folder / QRELS).mkdir()
    pairs = ("\t".join(map(str, pair)) for pair in _grades(tables.qrels, losses))
    write_lines(folder / QRELS / f"{DEFAULT_SUBSET}.tsv", ("\t".join(PAIR_KEYS), *pairs))


def _beir_query_lines(tables: Tables, losses: Losses) -> Iterator[str]:
    for row in _rows(tables.queries):
        metadata = row["metadata"]
        field = metadata.get("tags")
        # A list of strings would be read back as the tags of the query.
        is_tags = isinstance(field, list) and all(isinstance(tag, str) for tag in field)
        if "tags" in metadata and (row["tags"] or is_tags):
            losses["metadata fields `tags`, replaced by the tags"] += 1
            del metadata["tags"]
        if row["tags"]:
            metadata["tags"] = row["tags"]
        yield _line({"_id": row["query_id"], "text": row["text"]}, metadata)


def write_trec(tables: Tables, folder: Path, losses: Losses) -> None:
    """Write ``topics.tsv``, ``qrels.txt`` and ``corpus.jsonl``.

    Of queries only id and text are kept, of qrels the plain pairs.

    Raises:
        DataError: an id holds white space, or begins with ``<``, ``#`` or a byte order mark.
    """
    _refuse_ids(
        tables,
        lambda name: any(c.isspace() for c in name) or name.startswith(("<", COMMENT, "\ufeff")),
        "holds white space or begins with '<', '#' or a byte order mark: TREC files cannot hold it",
    )
    write_lines(folder / "corpus.jsonl", document_lines(tables.documents, "_id"))
    texts = ((row["query_id"], _LINE_END.sub(" ", row["text"])) for row in _rows(tables.queries))
    write_lines(folder / "topics.tsv", (f"{query_id}\t{text}" for query_id, text in texts))
    pairs = _grades(tables.qrels, losses)
    lines = (f"{query} 0 {document} {grade}" for query, document, grade in pairs)
    write_lines(folder / "qrels.txt", lines)
    several = sum(_LINE_END.search(row["text"]) is not None for row in _rows(tables.queries))
    losses["queries of several lines, written as one line each"] = several
    _count_lost_fields(tables, losses)


def write_llamaindex(tables: Tables, folder: Path, losses: Losses) -> None:
    """Write ``dataset.json``; only ids, texts and which documents are relevant are kept."""
    corpus: dict[str, str] = {}
    for row in _rows(tables.documents):
        corpus[row["document_id"]] = row["text"]
        losses["documents without their title"] += bool(row["title"])
        losses["documents without their metadata"] += bool(row["metadata"])
    queries = {row["query_id"]: row["text"] for row in _rows(tables.queries)}
    relevant: dict[str, list[str]] = {query_id: [] for query_id in queries}
    for query_id, document_id, grade in _grades(tables.qrels, losses):
        losses["judgments of grades below 1, left out"] += grade <= 0
        losses["grades above 1, written as 1"] += grade > 1
        if grade > 0:
            relevant[query_id].append(document_id)
    content = {QUERIES_KEY: queries, CORPUS_KEY: corpus, RELEVANT_KEY: relevant, "mode": "text"}
    with (folder / "dataset.json").open("w", encoding="utf-8") as stream:
        json.dump(content, stream, ensure_ascii=False)
    _count_lost_fields(tables, losses)


WRITERS: dict[str, Callable[[Tables, Path, Losses], None]] = {
    "jsonl": write_jsonl,
    "beir": write_beir,
    "trec": write_trec,
    "llamaindex": write_llamaindex,
}
"""All formats that can be written, each into a folder that exists."""


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines that end in a line feed, as UTF-8."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, never all at once, each with its metadata as a mapping."""
    for batch in table.to_batches(BATCH_ROWS):
        for row in batch.to_pylist():
            yield {**row, "metadata": json.loads(row.get("metadata", "{}"))}


def _line(fields: Row, metadata: Row) -> str:
    return canonical_json({**fields, "metadata": metadata} if metadata else fields)


def _count_lost_fields(tables: Tables, losses: Losses) -> None:
    for row in _rows(tables.queries):
        losses["queries without their tags"] += bool(row["tags"])
        losses["queries without their metadata"] += bool(row["metadata"])


def _refuse_ids(tables: Tables, unfit: Callable[[str], bool], why: str) -> None:
    """Refuse ids that the format cannot hold: a judgment that points nowhere is worse than none."""
    for kind, ids in (
        ("document", tables.documents.column("document_id")),
        ("document", tables.qrels.column("document_id")),  # kept, though not in the corpus
        ("query", tables.queries.column("query_id")),
    ):
        for name in ids.to_pylist():
            if unfit(name):
                raise DataError(f"{kind} id {name!r} {why}")


def _grades(qrels: pa.Table, losses: Losses) -> list[tuple[str, str, int]]:
    """Return every query and document with its highest grade, and count what that loses."""
    grades: dict[tuple[str, str], int] = {}
    documents: dict[tuple[str, str], set[str]] = {}
    named: set[tuple[str, str]] = set()
    for row in _rows(qrels):
        pair = (row["query_id"], row["document_id"])
        losses["spans, written as whole documents"] += row["start"] is not None
        losses["judgments of a document that is judged already; the highest grade is kept"] += (
            pair in grades
        )
        grades[pair] = max(row["grade"], grades.get(pair, row["grade"]))
        evidence = (row["query_id"], row["evidence_id"])
        documents.setdefault(evidence, set()).add(row["document_id"])
        if row["evidence_id"] != _default_evidence_id(row):
            named.add(evidence)
    groups = {evidence for evidence, judged in documents.items() if len(judged) > 1}
    losses["groups of alternatives, written as separate judgments"] = len(groups)
    losses["evidence ids, left out"] = len(named - groups)
    return [(*pair, grade) for pair, grade in grades.items()]


def _default_evidence_id(row: Row) -> str:
    """Return the id of an evidence that nobody has named."""
    if row["start"] is None:
        return str(row["document_id"])
    return f"{row['document_id']}#{row['start']}-{row['end']}"
