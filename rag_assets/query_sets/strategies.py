"""The query sets of ours: what a language model writes, and what stands in a file.

Those that a model writes are a prompt of their name in ``llm/prompts/``, how its answer is read,
and their options.

``self_query`` is LangChain's and LlamaIndex's self-querying, or auto-retrieval: a model writes the
filter of each query, and the rest of it. What it wrote is checked against the fields and values
that documents have. Retrievers with ``filters: true`` that search this query set obey the filters
that are left, in place of those by hand.

``file`` has three forms, told apart by name and content:

- JSON lines (``.jsonl``), one query a line: ``{"query_id": "q1", "variants": ["...", "..."]}``;
- LlamaIndex (``.json`` with an object ``queries``, query id -> text): one text for each query;
- a JSON object from the *text* of a query to its variants, a list of strings or one string.

A file may be made for more queries than are asked for: entries for other queries are listed, not
refused, unless no entry fits. Queries without an entry keep their original alone, and are counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_facts import FIELD, Filter, filter_values
from rag_assets.input_files import suffix
from rag_assets.llm.client import Answer, Completion
from rag_assets.query_sets.model_output import (
    Rejected,
    Unusable,
    is_cut,
    parsed_line,
    parsed_list,
    parsed_passage,
    usable_text,
)
from rag_assets.query_sets.query_set import (
    ComputedQuerySet,
    Count,
    PromptedQuerySet,
    Strategy,
    Variants,
)
from rag_assets.query_sets.variants import folded, variant_table
from rag_assets.schemas import column_values
from rag_assets.sources.fields import Place, checked_id, identifier, shown, type_name
from rag_assets.sources.row_files import read_object, read_objects


class RewriteQuerySet(PromptedQuerySet):
    """Each query said once more, clear and complete."""

    strategy: Literal["rewrite"]

    def prompted(self) -> Strategy:
        return self.asking(parsed_line)


class MultiQuerySet(PromptedQuerySet):
    """``n`` paraphrases of each query: RAG-Fusion when their rankings are fused by ``rrf``.

    Rackauckas, "RAG-Fusion: a New Take on Retrieval-Augmented Generation", 2024.
    """

    reads_list: ClassVar[bool] = True

    strategy: Literal["multi_query"]
    n: Count = 4

    def prompted(self) -> Strategy:
        return self.asking(partial(parsed_list, at_most=self.n), {"n": self.n})


class HydeQuerySet(PromptedQuerySet):
    """HyDE: a passage that would answer the query; ``samples`` of them.

    Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023. There the
    vectors of the passages and of the query are averaged; here each is searched, and the fusion
    over the variants joins them: ``sum`` of inner products ranks as their average does, where
    every ranking holds every document.
    """

    strategy: Literal["hyde"]
    samples: Count = 1

    def prompted(self) -> Strategy:
        return self.asking(parsed_passage, samples=self.samples)


MAX_FIELDS = 40
"""Fields that the prompt shows."""

MAX_VALUE_CHARACTERS = 80
"""Characters of the longest value that the prompt shows."""

Values = Mapping[str, frozenset[str]]
"""Field -> all values that documents have."""

Rows = list[dict[str, Any]]
"""Of :data:`rag_assets.evaluation.query_facts.DOCUMENT_FIELDS`."""


class SelfQuerySet(PromptedQuerySet):
    """The rest of each query, without what a filter says that a model wrote.

    ``fields`` are those of the documents that a filter may ask for; null: all. The prompt shows the
    ``max_values`` most frequent values of each.
    """

    reads_fields: ClassVar[bool] = True

    strategy: Literal["self_query"]
    fields: tuple[str, ...] | None = None
    max_values: Count = 20

    def prompted(self) -> Strategy:
        return self.prompted_for(None)

    def prompted_for(self, fields: pa.Table | None) -> Strategy:
        rows = self._rows(fields) if fields is not None else []
        summary = field_summary(rows, self.max_values)
        parse = partial(_parsed, values=_values(rows))
        return self.asking(parse, {"fields": summary}, needed=("query", "fields"))

    def written(self, answers: pa.Table, fields: pa.Table) -> dict[str, Filter]:
        """Return query id -> the filter that a model wrote, where it wrote one that holds."""
        values = _values(self._rows(fields))
        filters: dict[str, Filter] = {}
        for row in answers.to_pylist():
            if row["failure"] is None:
                answer = Completion(row["text"], None, None, row["finish_reason"])
                query = _self_query(answer, "", values)
                if isinstance(query, SelfQuery) and query.filter:
                    filters[row["query_id"]] = query.filter
        return filters

    def _rows(self, fields: pa.Table) -> Rows:
        rows: Rows = fields.to_pylist()
        names = sorted({row["field"] for row in rows})
        chosen = names if self.fields is None else self.fields
        for name in set(chosen) - set(names):
            problem = f"no document has the field {allowed_names(name, names)}"
            raise DataError(f"self_query: {problem}")
        return [row for row in rows if row["field"] in chosen]


class SelfQuery(NamedTuple):
    """What a model made of one query: the text that is searched, and the filter."""

    text: str
    filter: Filter


def field_summary(rows: Rows, max_values: int) -> str:
    """Return a line a field: its name and its most frequent values, as JSON.

    Fields that most documents have come first; :data:`MAX_FIELDS` of them are shown, and no value
    above :data:`MAX_VALUE_CHARACTERS`.
    """
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        counts[row["field"]][row["value"]] = row["n_documents"]
    order = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))
    lines = []
    for name in order[:MAX_FIELDS]:
        values = sorted(counts[name].items(), key=lambda item: (-item[1], item[0]))
        short = [value for value, _ in values if len(value) <= MAX_VALUE_CHARACTERS][:max_values]
        texts = [json.dumps(text, ensure_ascii=False) for text in (name, *short)]
        n_more = len(values) - len(short)
        listed = ", ".join([*texts[1:], *([f"and {n_more} more"] if n_more else [])])
        lines.append(f"- {texts[0]}: {listed}")
    return "\n".join(lines) or "(no fields)"


def _values(rows: Rows) -> Values:
    values: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        values[row["field"]].add(row["value"])
    return {name: frozenset(texts) for name, texts in values.items()}


def _parsed(answer: Answer, original: str, values: Values) -> list[str] | Unusable | Rejected:
    query = _self_query(answer, original, values)
    return [query.text] if isinstance(query, SelfQuery) else query


def _self_query(answer: Answer, original: str, values: Values) -> SelfQuery | Unusable | Rejected:
    text = usable_text(answer, original)
    if isinstance(text, Unusable):
        return text
    written = _json_object(text) or {}
    rest = written.get("query")
    if not isinstance(rest, str):
        if is_cut(answer):
            return Unusable("the answer was cut at max_tokens")
        return Unusable('the answer has no JSON object {"query": text, "filter": object}')
    try:
        query_filter = filter_values(written.get(FIELD))
    except ValueError as error:
        return Rejected(f"the filter {error}")
    for name, texts in query_filter.items():
        if name not in values:
            return Rejected(f"no document has the field {name!r}")
        for value in texts:
            if value not in values[name]:
                return Rejected(f"no document has {value!r} under {name!r}")
    return SelfQuery(rest, query_filter)


def _json_object(text: str) -> dict[str, object] | None:
    """Return the first JSON object in a text; None where there is none."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        return value if isinstance(value, dict) else None
    return None


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


def read_variants(path: Path, queries: pa.Table) -> Variants:
    """Return the variants in a file; notes count queries and entries without a counterpart."""
    ids = queries.column("query_id").to_pylist()
    by_text: dict[str, list[str]] = defaultdict(list)
    for query_id, text in column_values(queries, "query_id", "text"):
        by_text[folded(text)].append(query_id)
    query_ids = set(ids)
    by_query: dict[str, list[str]] = {}
    unknown: list[str] = []
    seen: dict[str, str] = {}
    for place, key, name, names_text, variants in _entries(path):
        folded_name = folded(name) if names_text else name
        if folded_name in seen:
            raise place.error(f"is the same query as {seen[folded_name]}", key)
        seen[folded_name] = key if place.line is None else f"on line {place.line}"
        named = by_text.get(folded_name, []) if names_text else [name]
        fitting = [query_id for query_id in named if query_id in query_ids]
        by_query.update(dict.fromkeys(fitting, variants))
        unknown += [] if fitting else [name]
    if ids and not by_query:
        example = f", such as {shown(unknown[0])}" if unknown else ""
        problem = f"matches no query: it names {len(unknown)}{example}"
        raise DataError(f"{problem}; query ids are {shown(ids[0])}...", file=path)
    counts = {
        "queries without a variant in the file keep their original alone": len(query_ids)
        - len(by_query),
        "entries of the file belong to other queries": len(unknown),
    }
    notes = [f"{count} {words}" for words, count in counts.items() if count]
    return Variants(variant_table(queries, by_query), notes)


def _entries(path: Path) -> Iterator[tuple[Place, str, str, bool, list[str]]]:
    """Yield of each entry place, key, its query, whether that is named by text, and variants."""
    if suffix(path) in LINES_SUFFIXES:
        for place, row in read_objects(path):
            query_id = identifier(row, "query_id", place)
            texts = _texts(row.get("variants"), place, "variants")
            yield place, "query_id", query_id, False, texts
        return
    content, place = read_object(path, _FORMS), Place(path)
    if isinstance(content.get("queries"), dict):
        place = Place(path, path="queries")
        for query_id, text in content["queries"].items():
            checked_id(query_id, place, query_id)
            yield place, query_id, query_id, False, [_text(text, place, query_id)]
        return
    for text, variants in content.items():
        listed = [variants] if isinstance(variants, str) else variants
        yield place, shown(text), text, True, _texts(listed, place, shown(text))


def _texts(value: object, place: Place, key: str) -> list[str]:
    if not isinstance(value, list):
        raise place.error(f"is {type_name(value)}; must be a list of strings", key)
    return [_text(text, place, f"{key}[{position}]") for position, text in enumerate(value)]


def _text(value: object, place: Place, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        problem = "is blank" if isinstance(value, str) else f"is {type_name(value)}"
        raise place.error(f"{problem}; must be a string with a letter", key)
    return value
