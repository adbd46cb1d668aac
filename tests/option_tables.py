"""Tables of options in docs/: name, default and allowed values as the code has them.

A table stands below a line ``<!-- options: NAME -->``. What an option means is written by hand in
its last column; the rest is filled in by ``python -m tests.option_tables``, which keeps the last
column, and a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from rag_assets.chunking.index_texts import IndexText
from rag_assets.experiment.llm import LlmConfig
from rag_assets.options import MAX_DEPTH, Options
from rag_assets.query_sets.query_set import QUERY_SET_TYPES, PromptedQuerySet
from rag_assets.retrieval.base import (
    BaseRetriever,
    EmbeddingRetriever,
    LexicalRetriever,
    Retriever,
    Rm3Expansion,
    WindowExpansion,
)
from rag_assets.retrieval.dense.embedding import HnswOptions
from rag_assets.retrieval.external.base import ExternalRetriever, ImportedRetriever
from rag_assets.retrieval.fusion.base import FusedRetriever, Tune
from rag_assets.retrieval.recency import Recency
from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.retrieval.reranking.candidates import RerankedRetriever
from tests.walked_page import DOCS

PAGES = ("retrievers.md", "query_sets.md", "index_texts.md")
HEAD = "| option | default | allowed | meaning |\n|---|---|---|---|\n"

SHARED: Mapping[str, type[Options]] = {
    "base": BaseRetriever,
    "external": ExternalRetriever,
    "fused": FusedRetriever,
    "reranked": RerankedRetriever,
}
"""Options that stand once on the page, not with each type."""

BLOCKS: Mapping[str, type[Options]] = {
    "window": WindowExpansion,
    "rm3": Rm3Expansion,
    "hnsw": HnswOptions,
    "tune": Tune,
    "recency": Recency,
    "llm": LlmConfig,
    "prompted": PromptedQuerySet,
    "index_text": IndexText,
}
_FAMILIES = (
    LexicalRetriever,
    EmbeddingRetriever,
    ImportedRetriever,
    ExternalRetriever,
    FusedRetriever,
    RerankedRetriever,
    Retriever,
)
_TABLE = re.compile(r"(<!-- options: (?P<name>[\w-]+) -->\n\n)(?P<rows>(?:\|.*\n)+)")
_NAMED = re.compile(r"^\| `(?P<option>\w+)` \|(?P<middle>.*)\| (?P<meaning>[^|]*) \|$", re.M)


class Row(NamedTuple):
    """One option: its name, its default and what is allowed, as Markdown."""

    option: str
    default: str
    allowed: str


def options_of(name: str) -> list[Row]:
    """Return the rows of the table of this name; of a type or strategy, only those of its own."""
    if name in SHARED or name in BLOCKS:
        return list(_rows({**SHARED, **BLOCKS}[name], frozenset({"strategy"})))
    if name in OWN_TYPES:
        model = OWN_TYPES[name]
        family = next(one for one in _FAMILIES if issubclass(model, one))
        shared = frozenset(family.model_fields) - _changed(model, family)
        return list(_rows(model, shared | {"type"}))
    return list(_rows(QUERY_SET_TYPES[name], frozenset(PromptedQuerySet.model_fields)))


def options_rows(model: type[Options]) -> list[Row]:
    return list(_rows(model, frozenset()))


def _changed(model: type[Options], family: type[Options]) -> frozenset[str]:
    """Return the options of a family for which a type allows something else."""
    own, shared = (one.model_json_schema()["properties"] for one in (model, family))
    return frozenset(name for name in shared if own[name] != shared[name])


def _rows(model: type[Options], without: frozenset[str]) -> Iterator[Row]:
    schema = model.model_json_schema(by_alias=True)
    for field, found in model.model_fields.items():
        if field not in without:
            option = found.alias or field
            described = schema["properties"][option]
            yield Row(option, _default(found, described.get("default")), allowed(described))


def _default(found: FieldInfo, shown: object) -> str:
    if found.is_required():
        return "needed"
    if isinstance(shown, dict):
        return "see its block"
    return "`{}`" if found.default_factory is dict else f"`{_yaml(shown)}`"


def allowed(described: Mapping[str, Any]) -> str:
    """Return in words what a JSON schema allows."""
    if "anyOf" in described:
        parts = [one for one in described["anyOf"] if one.get("type") != "null"]
        words = list(dict.fromkeys(allowed(one) for one in parts))
        return " or ".join(words + ["`null`"] * (len(parts) < len(described["anyOf"])))
    if "oneOf" in described or "$ref" in described:
        return "a block"
    if "const" in described:
        return f"`{described['const']}`"
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"])
    return _of_type(described)


def _of_type(described: Mapping[str, Any]) -> str:
    kind = described["type"]
    if kind == "boolean":
        return "`true`, `false`"
    if kind == "object":
        return "a block" if "properties" in described else "a mapping"
    if kind == "array":
        item = allowed(described["items"]).removeprefix("a ").replace("number", "numbers", 1)
        fewest = f"{described['minItems']} or more " if "minItems" in described else ""
        return f"a list of {fewest}{'names' if item == 'text' else item}"
    if kind == "string":
        return "a file" if described.get("format") == "path" else "text"
    return f"a {'whole ' if kind == 'integer' else ''}number{_range(described)}"


def _range(described: Mapping[str, Any]) -> str:
    described = {name: value for name, value in described.items() if value != MAX_DEPTH}
    if "minimum" in described and "maximum" in described:
        return f" from {described['minimum']} to {described['maximum']}"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    found = [f"{word} {described[name]}" for name, word in words.items() if name in described]
    return f" {' and '.join(found)}" if found else ""


def _yaml(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def table(name: str, meanings: Mapping[str, str]) -> str:
    rows = (
        f"| `{row.option}` | {row.default} | {row.allowed} | {meanings.get(row.option, '')} |\n"
        for row in options_of(name)
    )
    return HEAD + "".join(rows)


def tables_of(page: str) -> dict[str, str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return {found["name"]: found["rows"] for found in _TABLE.finditer(text)}


def meanings_in(rows: str) -> dict[str, str]:
    return {found["option"]: found["meaning"].strip() for found in _NAMED.finditer(rows)}


def main() -> None:
    for page in PAGES:
        file = DOCS / page
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            file.write_text(
                _TABLE.sub(lambda m: m[1] + table(m["name"], meanings_in(m["rows"])), text),
                encoding="utf-8",
            )


if __name__ == "__main__":
    main()
