"""What lies beside the files of a data set: looked for each time, and stored with no table.

Folders with equal documents share the stored table, whatever else lies in each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from rag_assets.errors import DataError
from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset, document_paths, left_out
from rag_assets.sources.fields import note
from rag_assets.sources.folder_labels import LabelledFolder


def unread_files(dataset: Dataset, named: Collection[Path]) -> list[str]:
    """Return a line for each kind of file in the folder that may not be read as its owner thinks.

    What cannot be looked at is not told to be there.

    Args:
        dataset: whose folder is looked at.
        named: files that the experiment reads besides it, such as prompts.
    """
    lines: list[str] = []
    with suppress(DataError, OSError):
        lines += _about_documents(dataset, {file.resolve() for file in named})
    return [*lines, *question_like(dataset, named)]


def question_like(dataset: Dataset, named: Collection[Path]) -> list[str]:
    """Return those of the lines that are about files whose names say that they hold questions."""
    if not isinstance(dataset, LabelledFolder):
        return []
    documents: list[Path] = []
    if isinstance(dataset, MarkdownDataset):
        with suppress(DataError, OSError):
            documents = dataset.document_files()
    return dataset.question_like(documents, {file.resolve() for file in named})


def _about_documents(dataset: Dataset, named: Collection[Path]) -> Iterator[str]:
    root = dataset.root
    if isinstance(dataset, MarkdownDataset):
        listing = document_paths(root)
        yield from left_out(listing)
        also_named = [file for file in listing.files if file.resolve() in named] if named else []
        yield from note(
            "file that the experiment names is read as a document too",
            "files that the experiment names are read as documents too",
            _names(also_named, root),
        )
    elif isinstance(dataset, LabelledFolder | BeirDataset):
        read = {*map(Path.resolve, dataset.document_files()), *named}
        stray = [file for file in document_paths(root).files if file.resolve() not in read]
        yield from note(
            "file beside the documents is not read",
            "files beside the documents are not read",
            _names(stray, root),
        )


def _names(files: Collection[Path], root: Path) -> list[str]:
    return [file.relative_to(root).as_posix() for file in files]
