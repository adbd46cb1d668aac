"""What every dataset format offers: its files, its three tables, and what fits it by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import pyarrow as pa

from rag_assets.sources.problems import FIRST, Problems
from rag_assets.store.artifacts import Block
from rag_assets.store.blocks import KnownBlocks


class Read(NamedTuple):
    """A table that was read, with one line for each repaired, dropped or odd thing in it.

    ``blocks`` are those that it was read in; see :mod:`rag_assets.store.blocks`.
    """

    table: pa.Table
    notes: list[str]
    blocks: Sequence[Block] = ()


class Dataset(Protocol):
    """Documents, queries and qrels of one format at one place.

    Opening one costs next to nothing; the tables are read when they are asked for, and nothing is
    kept, so a second call sees the files as they are then. ``problems`` says whether reading stops
    at the first problem.
    """

    format: ClassVar[str]
    """Name of the format, as in ``experiment.yaml``."""

    layout: ClassVar[str]
    """What the format looks like on disk, in one phrase, for error messages."""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether ``path`` has this layout, judged from names and first bytes only."""
        ...

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return what the layout needs, part by part, and whether it is at ``path``.

        Empty where nothing can be told from names and first bytes.
        """
        ...

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the dataset at ``path``.

        Raises:
            DataError: ``path`` lacks a part of the layout.
            UsageError: the subset does not exist, or the format has none.
        """
        ...

    @property
    def root(self) -> Path:
        """The folder that the names of all files are relative to."""
        ...

    @property
    def default_judge(self) -> str:
        """The unit to judge unless the experiment says otherwise: ``document`` or ``evidence``."""
        ...

    @property
    def default_chunking(self) -> str:
        """The chunking of an experiment that names none: ``none`` or ``recursive``."""
        ...

    @property
    def has_qrels(self) -> bool:
        """Whether there are labels, judged from names only; without, nothing reads qrels."""
        ...

    def document_files(self) -> list[Path]:
        """Return the files that determine the documents, without reading them."""
        ...

    def query_files(self) -> list[Path]:
        """Return the files that determine the queries, without reading them."""
        ...

    def qrels_files(self) -> list[Path]:
        """Return the files that determine the qrels, besides those of documents and queries."""
        ...

    def read_documents(self, problems: Problems = FIRST) -> Read:
        """Return the documents (``schemas.DOCUMENTS``).

        Raises:
            DataError: a file breaks its format, an id occurs twice, or there is no document.
        """
        ...

    def read_queries(self, problems: Problems = FIRST) -> Read:
        """Return the queries (``schemas.QUERIES``).

        Raises:
            DataError: a file breaks its format, an id occurs twice, or there is no query.
        """
        ...

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the qrels (``schemas.QRELS``), each checked against the two tables.

        Raises:
            DataError: a judgment breaks its format, names what does not exist, or occurs twice.
        """
        ...


@runtime_checkable
class BlockwiseDataset(Protocol):
    """A dataset whose documents stand in records of their own: it need not parse all of them."""

    def read_document_blocks(self, known: KnownBlocks) -> Read | None:
        """Return what :meth:`Dataset.read_documents` does, with its blocks.

        None where there is no document, or anything is wrong with one: reading them as a whole then
        says what.

        Args:
            known: blocks of earlier tables, which are not parsed again.
        """
        ...
