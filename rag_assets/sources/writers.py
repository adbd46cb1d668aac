"""Writers: from documents, queries and qrels to the formats of other tools.

One function a format; a new one is added to :data:`WRITERS`. Each returns a note on each kind of
thing that its format does not keep. Evidence becomes plain pairs of query and document for formats
that know nothing else.
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
from rag_assets.sources.beir import CORPUS, DEFAULT_SUBSET, QRELS_FOLDER, QUERIES_FILE
from rag_assets.sources.beir_files import DOCUMENT_KEY, QUERY_KEY, SCORE_KEY
from rag_assets.sources.folder_labels import JUDGMENTS, QUERIES
from rag_assets.sources.llamaindex import CORPUS_KEY, QUERIES_KEY, RELEVANT_KEY
from rag_assets.sources.record_folders import JSONL_DOCUMENTS
from rag_assets.store.atomic import atomic_directory
from rag_assets.store.canonical import canonical_json
from rag_assets.trec_lines import COMMENT

BATCH_ROWS = 4096
_LINE_END = re.compile(r"[\r\n]+")


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
    with atomic_directory(folder) as temporary:
        return WRITERS[format](tables, temporary)


def write_jsonl(tables: Tables, folder: Path) -> list[str]:
    """Write ``documents.jsonl``, ``queries.jsonl`` and, where there are labels, judgments.

    JSON lines hold all that the tables hold. A span is written as a quote and its first character.
    A span that is blank cannot be quoted, and a tag without a character is none.
    """
    write_lines(folder / JSONL_DOCUMENTS, document_lines(tables.documents))
    write_lines(folder / f"{QUERIES}.jsonl", _jsonl_query_lines(tables.queries))
    blank: list[str] = []
    if tables.qrels.num_rows:
        write_lines(folder / f"{JUDGMENTS}.jsonl", _judgment_lines(tables, blank))
    empty = sum("" in row["tags"] for row in _rows(tables.queries))
    return [
        *_note(
            len(blank),
            "span of blanks is written as its whole document",
            "spans of blanks are written as their whole documents",
        ),
        *_note(empty, "query loses an empty tag", "queries lose an empty tag"),
    ]


def document_lines(documents: pa.Table, id_key: str = "document_id") -> Iterator[str]:
    """Yield documents as lines of ``documents.jsonl``, each id under ``id_key``."""
    for row in _rows(documents):
        line = {id_key: row["document_id"], "title": row["title"], "text": row["text"]}
        yield _with_metadata(line, _metadata(row))


def _jsonl_query_lines(queries: pa.Table) -> Iterator[str]:
    for row in _rows(queries):
        tags = [tag for tag in row["tags"] if tag]
        line = {"query_id": row["query_id"], "text": row["text"], "tags": tags}
        yield _with_metadata(line, _metadata(row))


def _judgment_lines(tables: Tables, blank: list[str]) -> Iterator[str]:
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
                blank.append(row["query_id"])
        yield canonical_json(line)


def write_beir(tables: Tables, folder: Path) -> list[str]:
    """Write ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``.

    Spans, groups of alternatives and evidence ids are not kept. A query's tags are
    ``metadata.tags``, where this reader's own and other tools look for them.

    Raises:
        DataError: an id holds a tab, or a blank at an end.
    """
    _refuse_ids(
        tables,
        lambda name: "\t" in name or name != name.strip(" "),
        "holds a tab or begins or ends with a blank: qrels cannot hold it",
    )
    write_lines(folder / CORPUS, document_lines(tables.documents, "_id"))
    write_lines(folder / QUERIES_FILE, _beir_query_lines(tables.queries))
    grades, notes = _grades(tables.qrels)
    (folder / QRELS_FOLDER).mkdir()
    rows = (f"{query}\t{document}\t{grade}" for (query, document), grade in grades.items())
    lines = (f"{QUERY_KEY}\t{DOCUMENT_KEY}\t{SCORE_KEY}", *rows)
    write_lines(folder / QRELS_FOLDER / f"{DEFAULT_SUBSET}.tsv", lines)
    displaced = sum(_gives_way(row, _metadata(row)) for row in _rows(tables.queries))
    return notes + _note(
        displaced,
        "metadata field `tags` gives way to the tags",
        "metadata fields `tags` give way to the tags",
    )


def _beir_query_lines(queries: pa.Table) -> Iterator[str]:
    for row in _rows(queries):
        metadata = _metadata(row)
        if _gives_way(row, metadata):
            del metadata["tags"]
        if row["tags"]:
            metadata["tags"] = row["tags"]
        yield _with_metadata({"_id": row["query_id"], "text": row["text"]}, metadata)


def _gives_way(row: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Return whether a metadata field would be read back as the tags of the query."""
    tags = metadata.get("tags", "")
    is_tags = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    return "tags" in metadata and (bool(row["tags"]) or is_tags)


def write_trec(tables: Tables, folder: Path) -> list[str]:
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
    grades, notes = _grades(tables.qrels)
    lines = (f"{query} 0 {document} {grade}" for (query, document), grade in grades.items())
    write_lines(folder / "qrels.txt", lines)
    several = sum(_LINE_END.search(row["text"]) is not None for row in _rows(tables.queries))
    return [
        *notes,
        *_note(
            several,
            "query of several lines is written as one line",
            "queries of several lines are written as one line each",
        ),
        *_lost_query_fields(tables.queries),
    ]


def write_llamaindex(tables: Tables, folder: Path) -> list[str]:
    """Write ``dataset.json``; only ids, texts and which documents are relevant are kept."""
    grades, notes = _grades(tables.qrels)
    facts: Counter[str] = Counter()
    corpus: dict[str, str] = {}
    for row in _rows(tables.documents):
        corpus[row["document_id"]] = row["text"]
        facts["titles"] += bool(row["title"])
        facts["metadata"] += row["metadata"] != "{}"
    queries = {row["query_id"]: row["text"] for row in _rows(tables.queries)}
    relevant: dict[str, list[str]] = {query_id: [] for query_id in queries}
    for (query_id, document_id), grade in grades.items():
        if grade > 0:
            relevant[query_id].append(document_id)
    content = {QUERIES_KEY: queries, CORPUS_KEY: corpus, RELEVANT_KEY: relevant, "mode": "text"}
    with (folder / "dataset.json").open("w", encoding="utf-8") as stream:
        json.dump(content, stream, ensure_ascii=False)
    below = sum(grade <= 0 for grade in grades.values())
    above = sum(grade > 1 for grade in grades.values())
    return [
        *notes,
        *_note(
            below,
            "judgment of a grade below 1 is not kept",
            "judgments of grades below 1 are not kept",
        ),
        *_note(above, "grade above 1 is written as 1", "grades above 1 are written as 1"),
        *_note(facts["titles"], "document loses its title", "documents lose their titles"),
        *_note(facts["metadata"], "document loses its metadata", "documents lose their metadata"),
        *_lost_query_fields(tables.queries),
    ]


WRITERS: dict[str, Callable[[Tables, Path], list[str]]] = {
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


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, never all at once."""
    for batch in table.to_batches(BATCH_ROWS):
        yield from batch.to_pylist()


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(row["metadata"])
    return fields


def _with_metadata(line: dict[str, Any], metadata: dict[str, Any]) -> str:
    return canonical_json({**line, "metadata": metadata} if metadata else line)


def _note(number: int, one: str, many: str) -> list[str]:
    """Return the note ``'2 titles are not kept'``, or none for 0."""
    return [f"{number} {one if number == 1 else many}"] if number else []


def _lost_query_fields(queries: pa.Table) -> list[str]:
    tags = sum(bool(row["tags"]) for row in _rows(queries))
    metadata = sum(row["metadata"] != "{}" for row in _rows(queries))
    return [
        *_note(tags, "query loses its tags", "queries lose their tags"),
        *_note(metadata, "query loses its metadata", "queries lose their metadata"),
    ]


def _refuse_ids(tables: Tables, unfit: Callable[[str], bool], why: str) -> None:
    """Refuse ids that the format cannot hold: a judgment that points nowhere is worse than none.

    Raises:
        DataError: there is such an id; names the first.
    """
    for kind, ids in (
        ("document", tables.documents.column("document_id")),
        ("document", tables.qrels.column("document_id")),  # kept, though not in the corpus
        ("query", tables.queries.column("query_id")),
    ):
        for name in ids.to_pylist():
            if unfit(name):
                raise DataError(f"{kind} id {name!r} {why}")


def _grades(qrels: pa.Table) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the highest grade of every query and document, and what that loses."""
    grades: dict[tuple[str, str], int] = {}
    documents: dict[tuple[str, str], set[str]] = {}
    named: set[tuple[str, str]] = set()
    spans = merged = 0
    for row in _rows(qrels):
        pair = (row["query_id"], row["document_id"])
        spans += row["start"] is not None
        merged += pair in grades
        grades[pair] = max(row["grade"], grades.get(pair, row["grade"]))
        evidence = (row["query_id"], row["evidence_id"])
        documents.setdefault(evidence, set()).add(row["document_id"])
        if row["evidence_id"] != _default_evidence_id(row):
            named.add(evidence)
    groups = {evidence for evidence, judged in documents.items() if len(judged) > 1}
    return grades, [
        *_note(
            spans,
            "span is written as its whole document",
            "spans are written as their whole documents",
        ),
        *_note(
            merged,
            "judgment of a document that is judged already is merged into one of the highest grade",
            "judgments of a document that is judged already are merged into one of the highest "
            "grade",
        ),
        *_note(
            len(groups),
            "group of alternatives is written as judgments of their own",
            "groups of alternatives are written as judgments of their own",
        ),
        *_note(len(named - groups), "evidence id is not kept", "evidence ids are not kept"),
    ]


def _default_evidence_id(row: dict[str, Any]) -> str:
    """Return the id of an evidence that nobody has named."""
    if row["start"] is None:
        return str(row["document_id"])
    return f"{row['document_id']}#{row['start']}-{row['end']}"
