"""Which format lies at a path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.regular_files import special_kind
from rag_assets.sources.autorag import AutoragDataset
from rag_assets.sources.beir import QRELS_FOLDER, BeirDataset
from rag_assets.sources.columns import Columns
from rag_assets.sources.csv_folder import CsvDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.folder_labels import LabelledFolder
from rag_assets.sources.ir_datasets import IrDataset
from rag_assets.sources.jsonl_folder import JsonlDataset
from rag_assets.sources.lines import unreadable
from rag_assets.sources.llamaindex import LlamaIndexDataset
from rag_assets.sources.markdown import MarkdownDataset
from rag_assets.sources.nearest import nearest
from rag_assets.sources.parquet_folder import ParquetDataset
from rag_assets.sources.squad import SquadDataset
from rag_assets.sources.trec import TrecDataset

FORMATS: dict[str, type[Dataset]] = {
    LlamaIndexDataset.format: LlamaIndexDataset,
    SquadDataset.format: SquadDataset,
    BeirDataset.format: BeirDataset,
    AutoragDataset.format: AutoragDataset,
    TrecDataset.format: TrecDataset,
    JsonlDataset.format: JsonlDataset,
    CsvDataset.format: CsvDataset,
    ParquetDataset.format: ParquetDataset,
    MarkdownDataset.format: MarkdownDataset,
    IrDataset.format: IrDataset,
}
"""All formats by name, in the order of detection: the more specific layout comes first."""


def open_dataset(path: Path, format: str | None = None, subset: str | None = None) -> Dataset:
    """Return the dataset at ``path``; nothing is parsed yet.

    Args:
        path: a folder or file; the id of a dataset for the format ``ir_datasets``.
        format: a name of :data:`FORMATS`; recognised by the layout when absent.
        subset: one of several sets of queries or qrels, where the format has such.

    Raises:
        UsageError: there is nothing at ``path``, the format is unknown, or the subset is.
        DataError: no format is recognised, or ``path`` is not of the format asked for.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown dataset format {allowed_names(format, FORMATS)}")
    try:
        if format == IrDataset.format:
            return IrDataset.open(path, subset)
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        _refuse_special_files(path)
        reader = FORMATS[format] if format is not None else _recognised(path)
        return reader.open(path, subset)
    except OSError as error:
        raise unreadable(path, error) from error


def with_columns(dataset: Dataset, columns: Mapping[str, str | Sequence[str]]) -> Dataset:
    """Return the dataset with its fields under other names.

    Args:
        dataset: a dataset whose format has columns.
        columns: field of :data:`columns.NAMES` to the name that it has in the files; the id of a
            document may have several, whose values are joined.

    Raises:
        UsageError: a field is unknown, or the format has fixed names.
    """
    if not isinstance(dataset, LabelledFolder) or dataset.format == MarkdownDataset.format:
        named = ", ".join((JsonlDataset.format, CsvDataset.format, ParquetDataset.format))
        raise UsageError(f"format {dataset.format} has fixed names; columns are for {named}")
    return dataset.with_columns(Columns.of(columns))


def _recognised(path: Path) -> type[Dataset]:
    for reader in FORMATS.values():
        if reader.recognises(path):
            return reader
    readers = {name: reader for name, reader in FORMATS.items() if name != IrDataset.format}
    near = nearest(path, readers)
    looked_for = "; ".join(f"{reader.layout} ({name})" for name, reader in readers.items())
    raise DataError(f"{_what(path)}; {near or f'looked for: {looked_for}'}", file=path)


def _refuse_special_files(path: Path) -> None:
    """Refuse what looks like a file of the data set and is none; readers would pass it over."""
    for folder in (path, path / QRELS_FOLDER):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.is_file() or entry.is_dir():
                    continue
                kind = special_kind(Path(entry.path))
                if kind is not None:
                    raise DataError(f"is {kind}, not a file", file=entry.path)


def _what(path: Path) -> str:
    if not path.is_dir():
        return f"{special_kind(path) or 'a file'} of no known format"
    return "a folder of no known format" if any(path.iterdir()) else "an empty folder"
