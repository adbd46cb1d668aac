"""What every dataset format offers: its files, its three tables, and what fits it by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.sources.problems import FIRST, Problems


class Read(NamedTuple):
    """A table that was read, with one line for each repaired, dropped or odd thing in it."""

    table: pa.Table
    notes: list[str]


class Dataset(Protocol):
    """Documents, queries and qrels of one format at one place.

    Opening one costs next to nothing; the tables are read when they are asked for, and nothing is
    kept, so a second call sees the files as they are then. ``problems`` says whether reading stops
    at the first problem. What breaks the format, an id that occurs twice, a judgment of what does
    not exist, and a table without a row raise DataError.
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
        """Return the documents (``schemas.DOCUMENTS``)."""
        ...

    def read_queries(self, problems: Problems = FIRST) -> Read:
        """Return the queries (``schemas.QUERIES``)."""
        ...

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the qrels (``schemas.QRELS``), each checked against the two tables."""
        ...


class FolderLayout:
    """What formats share that are a folder of several parts, with documents that are judged."""

    format: ClassVar[str]
    layout: ClassVar[str]
    title: ClassVar[str]
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the parts, and which are there."""
        raise NotImplementedError

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether the folder has all parts."""
        return path.is_dir() and all(cls.parts(path).values())

    @classmethod
    def require_parts(cls, path: Path, optional: Iterable[str] = ()) -> None:
        """Refuse a folder that lacks a part which is not optional.

        Raises:
            DataError: it is none, or lacks one.
        """
        if not path.is_dir():
            raise DataError(f"not {cls.layout}", file=path)
        missing = [part for part, is_there in cls.parts(path).items() if not is_there]
        if missing and set(missing) - set(optional):
            raise DataError(f"not {cls.title}: {', '.join(missing)} missing", file=path)


def refuse_subset(path: Path, subset: str | None, what: str) -> None:
    """Refuse a subset of what has none.

    Raises:
        UsageError: one is asked for.
    """
    if subset is not None:
        raise UsageError(f"{path}: subset '{subset}': {what} has no subsets")
