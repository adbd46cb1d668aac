"""What a file of a folder holds, whatever its type."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.text_files import suffix

EXTRA = "documents"
"""The optional dependencies that read HTML and PDF."""


class FileDocument(NamedTuple):
    """One document; ``metadata`` is canonical JSON, a remark says what was lost or repaired.

    A remark continues the words "1 file " or "3 files ", as ``with pages without text``.
    """

    title: str
    text: str
    metadata: str = "{}"
    remarks: tuple[str, ...] = ()


def needs_package(path: Path, package: str) -> DataError:
    """Return the error for a file whose reader is not installed."""
    return DataError(
        f"reading {suffix(path)} files needs the package {package}: "
        f"pip install 'rag-assets[{EXTRA}]'",
        file=path,
    )
