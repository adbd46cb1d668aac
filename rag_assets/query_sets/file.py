"""The query set ``file``: texts that were written elsewhere, read from one file.

Three forms, told apart by name and content:

- JSON lines (``.jsonl``), one query a line: ``{"query_id": "q1", "variants": ["...", "..."]}``;
- LlamaIndex (``.json`` with an object ``queries``, query id -> text): one text for each query;
- a JSON object from the *text* of a query to its variants, a list of strings or one string.

A file may be made for more queries than are asked for: entries for other queries are listed, not
refused, unless no entry fits. Queries without an entry keep their original alone, and are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.input_files import suffix
from rag_assets.query_sets.query_set import ComputedQuerySet, Variants
from rag_assets.query_sets.variants import folded, variant_table
from rag_assets.sources.fields import Place, checked_id, identifier, shown, type_name
from rag_assets.sources.row_files import read_object, read_objects

LINES_SUFFIXES = (".jsonl", ".ndjson")
_FORMS = (
    'JSON lines {"query_id": ..., "variants": [...]}, {"queries": {id: text}}, '
    "or {query text: [variants]}"
)


class FileQuerySet(ComputedQuerySet):
    """Variants from a file: JSON lines, LlamaIndex JSON, or an object keyed by query text."""

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    strategy: Literal["file"]
    path: Path

    def variants(self, queries: pa.Table) -> Variants:
        return read_variants(self.path, queries)


class _Entry(NamedTuple):
    """The variants of one query, named by its id or by its text."""

    name: str
    by_text: bool
    variants: list[str]


def read_variants(path: Path, queries: pa.Table) -> Variants:
    """Return the variants in a file; notes count queries and entries without a counterpart."""
    ids, texts = (queries.column(name).to_pylist() for name in ("query_id", "text"))
    by_text: dict[str, list[str]] = defaultdict(list)
    for query_id, text in zip(ids, texts, strict=True):
        by_text[folded(text)].append(query_id)
    query_ids = set(ids)
    by_query: dict[str, list[str]] = {}
    unknown: list[str] = []
    for entry in _entries(path):
        named = by_text.get(folded(entry.name), []) if entry.by_text else [entry.name]
        fitting = [query_id for query_id in named if query_id in query_ids]
        by_query.update(dict.fromkeys(fitting, entry.variants))
        unknown += [] if fitting else [entry.name]
    if ids and not by_query:
        example = f", such as {shown(unknown[0])}" if unknown else ""
        problem = f"fits no query: it names {len(unknown)}{example}"
        raise DataError(f"{problem}; query ids are {shown(ids[0])}...", file=path)
    counts = {
        "queries without a variant in the file keep their original alone": len(query_ids)
        - len(by_query),
        "entries of the file are for other queries": len(unknown),
    }
    notes = [f"{count} {words}" for words, count in counts.items() if count]
    return Variants(variant_table(queries, by_query), notes)


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield the entries of a file, each of another query."""
    seen: dict[str, str] = {}
    for place, key, entry in _read(path):
        name = folded(entry.name) if entry.by_text else entry.name
        if name in seen:
            raise place.error(f"is the same query as {seen[name]}", key)
        seen[name] = key if place.line is None else f"on line {place.line}"
        yield entry


def _read(path: Path) -> Iterator[tuple[Place, str, _Entry]]:
    """Yield the place and the key of each entry, and the entry."""
    if suffix(path) in LINES_SUFFIXES:
        for place, row in read_objects(path):
            query_id = identifier(row, "query_id", place)
            texts = _texts(row.get("variants"), place, "variants")
            yield place, "query_id", _Entry(query_id, False, texts)
        return
    content, place = read_object(path, _FORMS), Place(path)
    if isinstance(content.get("queries"), dict):
        place = Place(path, path="queries")
        for query_id, text in content["queries"].items():
            checked_id(query_id, place, query_id)
            yield place, query_id, _Entry(query_id, False, [_text(text, place, query_id)])
        return
    for text, variants in content.items():
        listed = [variants] if isinstance(variants, str) else variants
        yield place, shown(text), _Entry(text, True, _texts(listed, place, shown(text)))


def _texts(value: object, place: Place, key: str) -> list[str]:
    if not isinstance(value, list):
        raise place.error(f"is {type_name(value)}; must be a list of strings", key)
    return [_text(text, place, f"{key}[{position}]") for position, text in enumerate(value)]


def _text(value: object, place: Place, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        problem = "is blank" if isinstance(value, str) else f"is {type_name(value)}"
        raise place.error(f"{problem}; must be a string with a letter", key)
    return value
