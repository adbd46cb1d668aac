"""``format: faq``: a JSON file of questions with their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.extend import (
    FIRST,
    DocumentRows,
    Place,
    Problems,
    QrelRows,
    QueryRows,
    Read,
    SingleFileDataset,
)


class FaqDataset(SingleFileDataset):
    """Every answer is a document, and what its question asks for."""

    format: ClassVar[str] = "faq"
    layout: ClassVar[str] = "a .json file that begins with the key faq"
    head: ClassVar[re.Pattern[bytes]] = re.compile(rb'\s*\{\s*"faq"\s*:')
    keys: ClassVar[tuple[str, ...]] = ("faq",)

    def _entries(self) -> Iterator[dict[str, Any]]:
        yield from json.loads(self.file.read_text(encoding="utf-8"))["faq"]

    def read_documents(self, problems: Problems = FIRST) -> Read:
        rows = DocumentRows()
        for entry in self._entries():
            rows.add(entry["id"], entry["question"], entry["answer"])
        return rows.read(Place(self.file), [])

    def read_queries(self, problems: Problems = FIRST) -> Read:
        rows = QueryRows()
        for entry in self._entries():
            rows.add(entry["id"], entry["question"], [])
        return rows.read(Place(self.file), [])

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        rows = QrelRows(documents, queries, problems)
        for entry in self._entries():
            rows.resolve(entry["id"], entry["id"], Place(self.file), ("id", "id"))
            rows.add(Place(self.file), entry["id"], entry["id"], 1)
        return rows.read(Place(self.file), [])
