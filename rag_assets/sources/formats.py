"""All formats of datasets, and which of them lies at a path.

Of what is of no known format the nearest layout is told, and what it lacks; and files beside a
dataset that may not be read as their owner thinks (what cannot be looked at is not told).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.input_files import special_kind, suffix
from rag_assets.plugins import Kind, members
from rag_assets.sources.autorag import AutoragDataset
from rag_assets.sources.beir import QRELS, BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset, document_paths
from rag_assets.sources.fields import Place, note
from rag_assets.sources.json_datasets import LlamaIndexDataset, SquadDataset
from rag_assets.sources.labelled_folder import (
    Columns,
    CsvDataset,
    JsonlDataset,
    LabelledFolder,
    ParquetDataset,
    RecordFolder,
    look_alikes,
)
from rag_assets.sources.row_files import parse_json, read_text, unreadable
from rag_assets.sources.samples import SampleDataset, no_layout
from rag_assets.sources.trec import TrecDataset

_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".tsv": "trec",
    ".zip": "beir",
}
"""Files that people name where a folder is meant."""

_OWN: tuple[type[Dataset], ...] = (
    LlamaIndexDataset,
    SquadDataset,
    SampleDataset,
    BeirDataset,
    AutoragDataset,
    TrecDataset,
    JsonlDataset,
    CsvDataset,
    ParquetDataset,
    MarkdownDataset,
)

KIND: Kind[Dataset] = Kind("format", "rag_assets.formats", (Dataset,), "format", ("layout",))

FORMATS = members(KIND, {cls.format: f"{cls.__module__}:{cls.__name__}" for cls in _OWN})
"""All formats by name, in the order of detection: the more specific layout comes first.

Those of packages are the last, so that what is installed changes the format of no known layout.
"""

ANSWER_LABELS = "answer_labels.jsonl"
"""What people say of answers: no labels of documents; it is read from here if from nowhere else."""

CLAIM_LABELS = "claim_labels.csv"
"""The same of the claims of answers, beside that file."""

PASSAGE_LABELS = "passage_labels.jsonl"
"""What people say of the passages of drawn questions, which calibrates judges; likewise."""

LABELLING_LOG = "labelling.jsonl"
"""Judgments of passages that were drawn one by one: they are a sample, and none of a dataset."""


def open_dataset(path: Path, format: str | None = None, subset: str | None = None) -> Dataset:
    """Return the dataset at ``path``; nothing is parsed yet.

    Args:
        path: a folder or file.
        format: a name of :data:`FORMATS`; recognised by the layout when absent.
        subset: one of several sets of queries or qrels, where the format has such.

    Raises:
        UsageError: there is nothing at ``path``, the format is unknown, or the subset is.
        DataError: no format is recognised, or ``path`` is not of the format asked for.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown dataset format {allowed_names(format, FORMATS)}")
    try:
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
        columns: field of :data:`labelled_folder.NAMES` to the name that it has in the files; the id
            of a document may have several, whose values are joined.

    Raises:
        UsageError: a field is unknown, or the format has fixed names.
    """
    if isinstance(dataset, SampleDataset):
        return replace(dataset, columns=Columns.of(columns).given)
    if not isinstance(dataset, RecordFolder):
        readers = (JsonlDataset, CsvDataset, ParquetDataset, SampleDataset)
        named = ", ".join(reader.format for reader in readers)
        raise UsageError(f"format {dataset.format} has fixed names; columns are for {named}")
    return replace(dataset, columns=Columns.of(columns))


def _recognised(path: Path) -> type[Dataset]:
    for reader in FORMATS.values():
        if reader.recognises(path):
            return reader
    is_empty = path.is_file() and not path.stat().st_size
    if path.is_file() and suffix(path) == ".json" and not is_empty:
        parse_json(read_text(path).encode(), Place(path))  # names what makes it unreadable
    near = no_layout(path) or _nearest(path)
    looked_for = "; ".join(f"{reader.layout} ({name})" for name, reader in FORMATS.items())
    problem = f"{_what(path)}; {near or f'looked for: {looked_for}'}"
    raise DataError("is empty" if is_empty else problem, file=path)


def _refuse_special_files(path: Path) -> None:
    """Refuse what looks like a file of the data set and is none; readers would pass it over."""
    for folder in (path, path / QRELS):
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


def _nearest(path: Path) -> str | None:
    """Return the layout of which most is there, and what is missing; None where nothing is.

    Of equally near ones the first is told.
    """
    parts = {name: reader.parts(path) for name, reader in FORMATS.items()}
    name = max(parts, key=lambda name: (sum(parts[name].values()), -len(parts[name])))
    if not any(parts[name].values()):
        name = _BY_SUFFIX.get(suffix(path), "") if path.is_file() else ""
        wanted = "; give the folder, not one of its files"
        return f"nearest: {FORMATS[name].layout} ({name}){wanted}" if name else None
    layout = f"nearest: {FORMATS[name].layout} ({name})"
    missing = [part for part, is_there in parts[name].items() if not is_there]
    if missing:
        return f"{layout}, where there is no {', no '.join(missing)}"
    return f"{layout}, but its content looks different; set `format: {name}`"


def unread_files(dataset: Dataset, named: Collection[Path]) -> list[str]:
    """Return a line for each kind of file in the folder that may not be read as its owner thinks.

    They are looked for each time, and stored with no table: folders with equal documents share the
    stored table, whatever else lies in each of them.

    Args:
        dataset: whose folder is looked at.
        named: files that the experiment reads besides it, such as prompts.
    """
    lines: list[str] = []
    with suppress(DataError, OSError):
        lines += _about_documents(dataset, {file.resolve() for file in named})
    return [*lines, *look_alikes(dataset, named)]


def _about_documents(dataset: Dataset, named: Collection[Path]) -> list[str]:
    if not isinstance(dataset, LabelledFolder | BeirDataset):
        return []
    listing = document_paths(dataset.root)
    names = {file.relative_to(dataset.root).as_posix(): file.resolve() for file in listing.files}
    if isinstance(dataset, MarkdownDataset):
        also_named = [name for name, file in names.items() if file in named]
        one = "file that the experiment names is read as a document too"
        many = "files that the experiment names are read as documents too"
        return [*listing.left_out(), *note(one, many, also_named)]
    read = {*map(Path.resolve, dataset.document_files()), *named}
    stray = [name for name, file in names.items() if file not in read]
    one, many = "file beside the documents is not read", "files beside the documents are not read"
    return note(one, many, stray)
