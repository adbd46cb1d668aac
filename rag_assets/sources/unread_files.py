"""Files beside a dataset that may not be read as their owner thinks.

What cannot be looked at is not told to be there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from rag_assets.errors import DataError
from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset, document_paths
from rag_assets.sources.fields import note
from rag_assets.sources.labelled_folder import JUDGMENTS, LabelledFolder

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


def unread_labels(dataset: Dataset) -> str | None:
    """Return one line about files that look like labels, where a dataset has none.

    They are told by their names, or by that of the folder they lie in. None where there are labels,
    or no such file.
    """
    if dataset.has_qrels or not dataset.root.is_dir():
        return None
    one, many = "file looks like labels and is not", "files look like labels and are not"
    names = [file.as_posix() for file in sorted(_label_like(dataset.root))]
    lines = note(f"{one} read as such", f"{many} read as such", names)
    label_file = f"{JUDGMENTS}.jsonl or {JUDGMENTS}.csv"
    if isinstance(dataset, BeirDataset):
        label_file = dataset.qrels_files()[0].relative_to(dataset.root).as_posix()
    where = f"of a {dataset.format} folder, labels are {label_file}"
    return f"{lines[0]}; {where}" if lines else None


def _label_like(root: Path) -> Iterator[Path]:
    """Yield the files, as paths below ``root``; nothing deeper than one folder is looked at."""
    with suppress(OSError):
        for entry in root.iterdir():
            if _WORD_OF_LABELS.search(entry.name.lower()) is not None:
                for file in entry.iterdir() if entry.is_dir() else [entry]:
                    is_other = file.name in (ANSWER_LABELS, PASSAGE_LABELS)
                    is_other |= file.name.startswith(".") or not _ENDS.fullmatch(file.suffix)
                    if not is_other and file.is_file():
                        yield file.relative_to(root)


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
    return [*lines, *question_like(dataset, named)]


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


def question_like(dataset: Dataset, named: Collection[Path]) -> list[str]:
    """Return the lines about files at the top whose names say that they hold questions.

    Args:
        dataset: whose folder is looked at.
        named: files that the experiment reads as something else.
    """
    if not isinstance(dataset, LabelledFolder):
        return []
    documents: list[Path] = []
    if dataset.format == MarkdownDataset.format:
        with suppress(DataError, OSError):
            documents = dataset.document_files()
    return dataset.question_like(documents, {file.resolve() for file in named})
