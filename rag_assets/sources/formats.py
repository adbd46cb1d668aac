"""All formats of datasets, and which of them lies at a path.

Of what is of no known format the nearest layout is told, and what it lacks; of a dataset without
labels, which files look like such.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.plugins import Kind, members
from rag_assets.regular_files import special_kind
from rag_assets.sources.autorag import AutoragDataset
from rag_assets.sources.beir import QRELS_FOLDER, BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset
from rag_assets.sources.fields import note
from rag_assets.sources.folder_labels import JUDGMENTS, Columns, LabelledFolder
from rag_assets.sources.ir_datasets import IrDataset
from rag_assets.sources.lines import unreadable
from rag_assets.sources.llamaindex import LlamaIndexDataset
from rag_assets.sources.record_folders import CsvDataset, JsonlDataset, ParquetDataset
from rag_assets.sources.squad import SquadDataset
from rag_assets.sources.trec import TrecDataset
from rag_assets.text_files import suffix

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
    BeirDataset,
    AutoragDataset,
    TrecDataset,
    JsonlDataset,
    CsvDataset,
    ParquetDataset,
    MarkdownDataset,
    IrDataset,
)

_ATTRIBUTES = tuple(
    name for name in (*Dataset.__annotations__, *vars(Dataset)) if not name.startswith("_")
)

KIND: Kind[Dataset] = Kind("format", "rag_assets.formats", (), "format", _ATTRIBUTES)

FORMATS = members(KIND, {one.format: f"{one.__module__}:{one.__name__}" for one in _OWN})
"""All formats by name, in the order of detection: the more specific layout comes first.

Those of packages are the last, so that what is installed changes the format of no known layout.
"""


ANSWER_LABELS = "answer_labels.jsonl"
"""What people say of answers: no labels of documents; it is read from here if from nowhere else."""

PASSAGE_LABELS = "passage_labels.jsonl"
"""What people say of the passages of drawn questions, which calibrates judges; likewise."""

LABELLING_LOG = "labelling.jsonl"
"""Judgments of passages that were drawn one by one: they are a sample, and none of a dataset."""

_WORD_OF_LABELS = re.compile(
    r"(?<![a-z])(qrels?|judge?ments?|labels?|relevance|gold|annotations?|ground[^a-z]?truth"
    r"|relevant[^a-z]?docs)(?![a-z])"
)
_ENDS = re.compile(r"(\.(csv|gz|jsonl?|ndjson|parquet|qrels?|trec|tsv|txt|xlsx?|ya?ml|zip))?", re.I)


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
        columns: field of :data:`folder_labels.NAMES` to the name that it has in the files; the id
            of a document may have several, whose values are joined.

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


def nearest(path: Path, readers: Mapping[str, type[Dataset]]) -> str | None:
    """Return the layout of which most is there, and what is missing; None where nothing is.

    Args:
        path: a file or folder that no reader recognises.
        readers: all formats by name; of equally near ones the first is told.
    """
    best: tuple[int, int, str] | None = None
    for name, reader in readers.items():
        parts = reader.parts(path)
        n_present = sum(parts.values())
        if n_present and (best is None or (n_present, -len(parts)) > best[:2]):
            missing = [part for part, is_there in parts.items() if not is_there]
            best = (n_present, -len(parts), _layout_text(name, reader, missing))
    if best is not None:
        return best[2]
    named = _BY_SUFFIX.get(suffix(path)) if path.is_file() else None
    if named is None:
        return None
    return f"nearest: {readers[named].layout} ({named}); a folder is read, not one file of it"


def _layout_text(name: str, reader: type[Dataset], missing: list[str]) -> str:
    if not missing:
        return f"nearest: {reader.layout} ({name}), but it begins otherwise; say `format: {name}`"
    return f"nearest: {reader.layout} ({name}), where there is no {', no '.join(missing)}"


def unread_labels(dataset: Dataset) -> str | None:
    """Return one line about files that look like labels, where a dataset has none.

    They are told by their names, or by that of the folder they lie in. None where there are labels,
    or no such file.
    """
    if dataset.has_qrels or not dataset.root.is_dir():
        return None
    files = sorted(_label_like(dataset.root))
    if not files:
        return None
    one, many = "file looks like labels and is not", "files look like labels and are not"
    (files_note,) = note(
        f"{one} read as such", f"{many} read as such", [file.as_posix() for file in files]
    )
    label_file = f"{JUDGMENTS}.jsonl or {JUDGMENTS}.csv"
    if isinstance(dataset, BeirDataset):
        label_file = dataset.qrels_files()[0].relative_to(dataset.root).as_posix()
    return f"{files_note}; of a {dataset.format} folder, labels are {label_file}"


def _label_like(root: Path) -> Iterator[Path]:
    """Yield the files, as paths below ``root``; nothing deeper than one folder is looked at."""
    try:
        for entry in root.iterdir():
            if not _is_named_so(entry.name):
                continue
            if entry.is_dir():
                yield from (file.relative_to(root) for file in entry.iterdir() if _may_be(file))
            elif _may_be(entry):
                yield entry.relative_to(root)
    except OSError:  # what cannot be looked at is not told to be there
        return


def _is_named_so(name: str) -> bool:
    return _WORD_OF_LABELS.search(name.lower()) is not None


def _may_be(file: Path) -> bool:
    if file.name in (ANSWER_LABELS, PASSAGE_LABELS):
        return False
    return bool(_ENDS.fullmatch(file.suffix)) and not file.name.startswith(".") and file.is_file()
