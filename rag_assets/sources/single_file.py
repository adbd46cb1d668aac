"""What formats share whose documents, queries and qrels are one JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from rag_assets.errors import DataError, UsageError
from rag_assets.text_files import opened, suffix

_HEAD_BYTES = 4096
_SEARCHED_BYTES = 1_000_000


@dataclass(frozen=True)
class SingleFileDataset:
    """One ``.json`` file, ``.gz`` too, told from others by how it begins (``head``)."""

    format: ClassVar[str]
    layout: ClassVar[str]
    head: ClassVar[re.Pattern[bytes]]
    keys: ClassVar[tuple[str, ...]]
    default_chunking: ClassVar[str] = "none"
    has_qrels: ClassVar[bool] = True

    file: Path

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether a ``.json`` file begins as this format does."""
        if suffix(path) != ".json" or not path.is_file():
            return False
        with opened(path) as stream:
            return cls.head.match(stream.read(_HEAD_BYTES)) is not None

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the keys of the format, and which stand near the beginning of the file."""
        if suffix(path) != ".json" or not path.is_file():
            return {}
        with opened(path) as stream:
            beginning = stream.read(_SEARCHED_BYTES)
        return {f"`{key}`": f'"{key}"'.encode() in beginning for key in cls.keys}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the file.

        Raises:
            DataError: it is not a file.
            UsageError: a subset is asked for; such a file has none.
        """
        if subset is not None:
            raise UsageError(f"{path}: subset '{subset}': a {cls.format} file has no subsets")
        if not path.is_file():
            raise DataError(f"not {cls.layout}", file=path)
        return cls(path)

    @property
    def root(self) -> Path:
        """The folder of the file."""
        return self.file.parent

    def document_files(self) -> list[Path]:
        """Return the file."""
        return [self.file]

    def query_files(self) -> list[Path]:
        """Return the file."""
        return [self.file]

    def qrels_files(self) -> list[Path]:
        """Return the file."""
        return [self.file]
