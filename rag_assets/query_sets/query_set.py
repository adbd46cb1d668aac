"""What a strategy for query sets is: its options, and how they become variants of the queries.

A strategy is a class in one file: a :class:`ComputedQuerySet`, or a
:class:`rag_assets.query_sets.prompted.PromptedQuerySet` whose variants a language model writes. One
of ours has a line in :mod:`rag_assets.query_sets.registry`, one of another package an entry point
of the group ``rag_assets.query_sets``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.options import FileOptions


class QuerySet(FileOptions):
    """Options of one query set."""

    strategy: str

    def described(self) -> Mapping[str, Any]:
        """Return the options that determine the variants, without names of files."""
        return self.model_dump(mode="json", exclude=set(self.file_options))


class Variants(NamedTuple):
    """What a strategy made of the queries.

    Attributes:
        table: of :data:`rag_assets.schemas.QUERY_VARIANTS`, as
            :func:`rag_assets.query_sets.variants.variant_table` makes it of texts.
        notes: one line for each thing worth telling people.
    """

    table: pa.Table
    notes: Sequence[str] = ()


class ComputedQuerySet(QuerySet, ABC):
    """Variants that are computed or read, without a language model."""

    @abstractmethod
    def variants(self, queries: pa.Table) -> Variants:
        """Return the variants; equal queries and files give equal ones.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.

        Raises:
            DataError: a file cannot be read, or does not fit the queries.
        """

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that determine the variants."""
        return {}
