"""Which format lies at a path."""

from __future__ import annotations

from pathlib import Path

from rag_assets.datasets.beir import BeirDataset
from rag_assets.datasets.dataset import Dataset
from rag_assets.datasets.lines import unreadable
from rag_assets.datasets.llamaindex import LlamaIndexDataset
from rag_assets.datasets.markdown import MarkdownDataset
from rag_assets.errors import DataError, UsageError, allowed_names

FORMATS: dict[str, type[Dataset]] = {
    LlamaIndexDataset.format: LlamaIndexDataset,
    BeirDataset.format: BeirDataset,
    MarkdownDataset.format: MarkdownDataset,
}
"""All formats by name, in the order of detection: the more specific layout comes first."""


def open_dataset(path: Path, format: str | None = None, subset: str | None = None) -> Dataset:
    """Return the dataset at ``path``; nothing is parsed yet.

    Args:
        path: a folder or file.
        format: a name of :data:`FORMATS`; recognised by the layout when absent.
        subset: the qrels file of a BEIR folder, ``test`` by default.

    Raises:
        UsageError: there is nothing at ``path``, the format is unknown, or the subset is.
        DataError: no format is recognised, or ``path`` is not of the format asked for.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown dataset format {allowed_names(format, FORMATS)}")
    try:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        reader = FORMATS[format] if format is not None else _recognised(path)
        return reader.open(path, subset)
    except OSError as error:
        raise unreadable(path, error) from error


def _recognised(path: Path) -> type[Dataset]:
    for reader in FORMATS.values():
        if reader.recognises(path):
            return reader
    looked_for = "; ".join(f"{reader.layout} ({name})" for name, reader in FORMATS.items())
    raise DataError(f"{_what(path)}; looked for: {looked_for}", file=path)


def _what(path: Path) -> str:
    if not path.is_dir():
        return "a file of no known format"
    return "a folder of no known format" if any(path.iterdir()) else "an empty folder"
