"""Files that look like labels, beside a dataset that has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.folder_labels import JUDGMENTS
from rag_assets.sources.notes import note

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
    files = sorted(_label_like(dataset.root))
    if not files:
        return None
    one, many = "file looks like labels and is not", "files look like labels and are not"
    (found,) = note(
        f"{one} read as such", f"{many} read as such", [file.as_posix() for file in files]
    )
    wanted = f"{JUDGMENTS}.jsonl or {JUDGMENTS}.csv"
    if isinstance(dataset, BeirDataset):
        wanted = dataset.qrels_files()[0].relative_to(dataset.root).as_posix()
    return f"{found}; of a {dataset.format} folder, labels are {wanted}"


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
    return bool(_ENDS.fullmatch(file.suffix)) and not file.name.startswith(".") and file.is_file()
