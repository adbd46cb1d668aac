"""Retrievers whose rankings were made elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from rag_assets.retrieval.retriever import BASE, Retriever


class Imported(NamedTuple):
    """Rankings from elsewhere: table of ``schemas.RUNS``, facts worth showing, failed queries."""

    table: pa.Table
    facts: Mapping[str, Any] = {}
    failures: Mapping[str, str] = {}


class ImportedRetriever(Retriever, ABC):
    """Options of a retriever that is read, not computed.

    ``chunking`` names the chunks that its ids are of.
    """

    family: ClassVar[str] = "imported"
    level: ClassVar[int] = BASE

    chunking: str | None = None

    @abstractmethod
    def read(self, queries: pa.Table, chunks: pa.Table, *, judge: str) -> Imported:
        """Return the rankings of the experiment's queries.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            judge: ``document``, ``chunk`` or ``evidence``.

        Raises:
            DataError: the file cannot be read, or names a unit or query that does not exist.
        """
