"""Where the parts of a BEIR dataset lie: in a folder or a ``.zip``, as text or as Parquet.

- The corpus: ``corpus.jsonl`` (``.gz`` too), ``corpus.parquet``, or shards in ``corpus/``.
- The queries, likewise.
- The qrels: ``qrels/<subset>.tsv``, ``.jsonl`` or ``.parquet``, or one file ``qrels`` of such a
  kind; beside Parquet also shards in ``data/``, where MTEB has them.

Shards are named as Hugging Face names them: ``test-00000-of-00002.parquet``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.text_files import ARCHIVE, members, plain_name, suffix

CORPUS = "corpus"
QUERIES = "queries"
QRELS = "qrels"
DATA = "data"

SOURCES_SUFFIX = ".sources.jsonl"
"""Beside qrels, which have no column for it: who judged what; no qrels themselves."""

LINES = ".jsonl"
PARQUET = ".parquet"
_PAIRS = (".tsv", LINES, PARQUET)
_SHARD = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")

Split = Mapping[str, list[Path]]


class Parts(NamedTuple):
    """The files of each part by split; the qrels by subset.

    Attributes:
        qrels_folder: whether there is a folder for qrels, which may be empty.
    """

    corpus: Split
    queries: Split
    qrels: Split
    qrels_folder: bool

    @property
    def missing(self) -> list[str]:
        """The parts that are not there, as they are called in a folder."""
        wanted = {f"{CORPUS}{LINES}": self.corpus, f"{QUERIES}{LINES}": self.queries}
        found = [name for name, split in wanted.items() if not split]
        return found if self.qrels or self.qrels_folder else [*found, f"{QRELS}/"]


def beir_parts(path: Path) -> Parts:
    """Return what of a BEIR dataset is at a path, judged from names only.

    Raises:
        DataError: a part is there in two forms, a shard is missing, or a ``.zip`` cannot be read.
    """
    if path.suffix.lower() == ARCHIVE and path.is_file():
        files = _in_archive(path)
    elif path.is_dir():
        files = list(_in_folder(path))
    else:
        return Parts({}, {}, {}, qrels_folder=False)
    corpus, queries = (_part(files, name, (LINES, PARQUET)) for name in (CORPUS, QUERIES))
    qrels = _part(files, QRELS, _PAIRS)
    is_parquet = any(suffix(file) == PARQUET for split in corpus.values() for file in split)
    if not qrels and is_parquet:
        qrels = _splits([file for folder, file in files if folder == DATA], (PARQUET,))
    return Parts(corpus, queries, qrels, (path / QRELS).is_dir())


def files_of(split: Split, subset: str) -> list[Path]:
    """Return the files of a part for a subset: its own where there are such, else all."""
    if subset in split:
        return split[subset]
    return [file for files in split.values() for file in files]


_Found = tuple[str, Path]
"""A file, and the folder that it lies in: empty at the top."""


def _in_folder(path: Path) -> Iterator[_Found]:
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield "", entry
    for name in (CORPUS, QUERIES, QRELS, DATA):
        folder = path / name
        if folder.is_dir():
            inside = sorted(folder.iterdir(), key=lambda entry: entry.name)
            yield from ((name, entry) for entry in inside if entry.is_file())


def _in_archive(path: Path) -> list[_Found]:
    """Return the text files of an archive, below the one folder that all of it may lie in."""
    names = [PurePosixPath(name) for name in members(path)]
    tops = {name.parts[0] for name in names}
    depth = 1 if len(tops) == 1 and all(len(name.parts) > 1 for name in names) else 0
    found = []
    for name in names:
        folders = name.parts[depth:-1]
        if len(folders) < 2 and suffix(Path(name)) != PARQUET:
            found.append((folders[0] if folders else "", path / name))
    return found


def _part(files: list[_Found], part: str, kinds: tuple[str, ...]) -> Split:
    top = [file for folder, file in files if not folder and _split_name(file)[0] == part]
    inner = PARQUET if part != QRELS else None
    inside = [file for folder, file in files if folder == part]
    flat = _splits(top, kinds)
    deep = _splits(inside, kinds if inner is None else (inner,))
    if flat and deep:
        one, other = flat[part][0], next(iter(deep.values()))[0]
        raise DataError(f"{one.name} is there too; keep one of them", file=other)
    return flat or deep


def _splits(files: list[Path], kinds: tuple[str, ...]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in files:
        if suffix(file) in kinds and not _is_other(file.name):
            found.setdefault(_split_name(file)[0], []).append(file)
    for name, split in found.items():
        _check_complete(name, split)
    return found


def _is_other(name: str) -> bool:
    return name.startswith(".") or name.endswith(SOURCES_SUFFIX)


def _split_name(file: Path) -> tuple[str, int, int]:
    """Return the name without shard and kind, the number of the shard, and how many there are."""
    stem = Path(plain_name(file)).stem
    shard = _SHARD.fullmatch(stem)
    if shard is None or suffix(file) != PARQUET:
        return stem, 0, 1
    return shard["name"], int(shard["number"]), int(shard["count"])


def _check_complete(name: str, files: list[Path]) -> None:
    shards = [_split_name(file) for file in files]
    count = shards[0][2]
    if any(shard[2] != count for shard in shards) or len({shard[1] for shard in shards}) < len(
        shards
    ):
        raise DataError(f"{files[0].name} is there too; keep one of them", file=files[1])
    missing = sorted(set(range(count)) - {shard[1] for shard in shards})
    if missing:
        wanted = f"{name}-{missing[0]:05d}-of-{count:05d}{PARQUET}"
        raise DataError(f"{wanted} is missing beside it", file=files[0])
