"""LlamaIndex ``EmbeddingQAFinetuneDataset`` files: one JSON object with three mappings."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.sources.dataset import Read, SingleFileDataset
from rag_assets.sources.fields import Place, checked_id, note, shown
from rag_assets.sources.problems import record_id, skipping_bad_rows
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.sources.strict_json import read_object, type_name

QUERIES_KEY = "queries"
CORPUS_KEY = "corpus"
RELEVANT_KEY = "relevant_docs"
GRADE = 1
"""The format only knows relevant documents, without grades."""

_KEYS = (QUERIES_KEY, CORPUS_KEY, RELEVANT_KEY)
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:queries|corpus|relevant_docs|mode)"\s*:')


class LlamaIndexDataset(SingleFileDataset):
    """A file with ``queries`` and ``corpus`` (id to text) and ``relevant_docs`` (id to ids)."""

    format: ClassVar[str] = "llamaindex"
    layout: ClassVar[str] = f"a .json file with the keys {', '.join(_KEYS)}"
    default_judge: ClassVar[str] = "document"
    head: ClassVar[re.Pattern[bytes]] = _HEAD
    keys: ClassVar[tuple[str, ...]] = _KEYS

    def read_documents(self) -> Read:
        """Return the nodes of ``corpus``, without titles; a note names unknown top-level keys."""
        content, place = self._content(), Place(self.file)
        rows = DocumentRows()
        for document_id, text in content[CORPUS_KEY].items():
            with skipping_bad_rows():
                rows.add(document_id, "", _checked_text(CORPUS_KEY, document_id, text, place))
        unknown = sorted(content.keys() - {*_KEYS, "mode"})
        unused = ("top-level key is ignored", "top-level keys are ignored")
        return rows.read(place, note(*unused, unknown))

    def read_queries(self) -> Read:
        """Return the queries, without tags."""
        place = Place(self.file)
        rows = QueryRows()
        for query_id, text in self._content()[QUERIES_KEY].items():
            with skipping_bad_rows():
                rows.add(query_id, _checked_text(QUERIES_KEY, query_id, text, place), [])
        return rows.read(place, [])

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return a judgment of grade 1 for each relevant node."""
        place = Place(self.file)
        rows = QrelRows(documents, queries)
        for query_id, nodes in self._content()[RELEVANT_KEY].items():
            with skipping_bad_rows():
                _add(rows, query_id, nodes, place)
        return rows.read(place, [])

    def _content(self) -> dict[str, Any]:
        value = read_object(self.file)
        for key in _KEYS:
            if key not in value:
                raise DataError(f"is missing; needed: {', '.join(_KEYS)}", file=self.file, key=key)
            if not isinstance(value[key], dict):
                kind = type_name(value[key])
                raise DataError(f"is {kind}; must be an object", file=self.file, key=key)
        return value


def _add(rows: QrelRows, query_id: str, nodes: object, place: Place) -> None:
    """Add the relevant nodes of a query; an unknown query is told once, unknown nodes each."""
    path = _path(RELEVANT_KEY, query_id)
    if not isinstance(nodes, list):
        raise place.error(f"is {type_name(nodes)}; must be a list of node ids", path)
    is_known = False
    with skipping_bad_rows():
        if nodes:
            rows.resolve_query(query_id, place, path)
        is_known = True
    for position, node in enumerate(nodes):
        node_path = f"{path}[{position}]"
        with skipping_bad_rows():
            document_id = checked_id(node, place, node_path)
            rows.resolve_document(query_id, document_id, place, node_path)
            if is_known:
                rows.add(place, query_id, document_id, GRADE)


def _checked_text(key: str, found_id: str, text: object, place: Place) -> str:
    path = _path(key, found_id)
    record_id("query" if key == QUERIES_KEY else "document", checked_id(found_id, place, path))
    if not isinstance(text, str):
        raise place.error(f"is {type_name(text)}; must be a string", path)
    return text


def _path(key: str, name: str) -> str:
    return f"{key}.{name}" if name.isprintable() and name else f"{key}.{shown(name)}"
