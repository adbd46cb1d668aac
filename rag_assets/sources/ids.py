"""Ids that must be unique, and ids that must exist.

Of an id that does not exist the nearest one is told, or that it is of another level: the id of a
chunk, or a file name without its end, where a document is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from rag_assets.sources.fields import Place, full_key, shown
from rag_assets.sources.problems import (
    DUPLICATE_ID,
    FOLLOWS,
    ID_LEVEL,
    UNKNOWN_ID,
    record_id,
    was_rejected,
)

_CHUNK_OF = (
    re.compile(r"(?P<document>.+)#\d+-\d+"),
    re.compile(r"(?P<document>.+?)[#:/_.\-]+(?:chunk|passage|part|node|p)?[#:_\-]*\d+", re.I),
)
"""Our own chunk ids, then those of other tools: ``doc_3``, ``doc-chunk-3``, ``doc::chunk_3``."""


MAX_COMPARED_IDS = 20_000
"""Above so many ids no nearest one is looked for: comparing takes seconds."""

_LINES_OF_A_FILE = 2**40

MAX_EXPLAINED_IDS = 20
"""For so many unknown ids the nearest one is looked for."""


class UniqueIds:
    """The ids met so far, each with its first place, in little memory."""

    def __init__(self, kind: str) -> None:
        """Watch over ids of ``kind`` (``document``, ``query``)."""
        self._kind = kind
        self._files: dict[Path, int] = {}
        self._places: dict[str, int | tuple[int, str]] = {}

    def __len__(self) -> int:
        """Return how many ids there are."""
        return len(self._places)

    def add(self, new_id: str, place: Place, key: str) -> None:
        """Remember an id that stands under ``key``.

        Raises:
            DataError: it has been there before; both places are named.
        """
        record_id(self._kind, new_id)
        number = self._files.setdefault(place.file, len(self._files))
        here: int | tuple[int, str] = (number, full_key(place, key))
        if place.line is not None:
            here = number * _LINES_OF_A_FILE + place.line  # one integer for a corpus of millions
        first = self._places.get(new_id)
        if first is None:
            self._places[new_id] = here
            return
        where = self._described(first, number)
        problem = f"{self._kind} id {shown(new_id)} occurs twice, first {where}"
        raise place.error(problem, key, DUPLICATE_ID)

    def _described(self, first: int | tuple[int, str], number: int) -> str:
        if isinstance(first, int):
            first_number, line = divmod(first, _LINES_OF_A_FILE)
            where = f"on line {line}"
        else:
            first_number, where = first[0], f"at `{first[1]}`"
        file = list(self._files)[first_number]
        return where if first_number == number else f"{where} of {file.name}"


class KnownIds:
    """The ids of a table, with their rows."""

    def __init__(self, kind: str, ids: pa.ChunkedArray, remedy: str = "") -> None:
        """Know the ``ids`` of ``kind`` (``document``, ``query``).

        ``remedy`` is said once, of the first that is unknown: what to do with all of them.
        """
        self._kind = kind
        self._remedy = remedy
        self._rows = {name: row for row, name in enumerate(ids.to_pylist())}
        self._unknown = 0

    def __contains__(self, name: object) -> bool:
        """Return whether the id exists."""
        return name in self._rows

    def row(self, name: str, place: Place, key: str) -> int:
        """Return the row of an id.

        Raises:
            DataError: it does not exist; the nearest one is named.
        """
        row = self._rows.get(name)
        if row is None and was_rejected(self._kind, name):
            problem = f"{self._kind} {shown(name)} is refused where it stands"
            raise place.error(problem, key, FOLLOWS)
        if row is None:
            check, problem = self.explain(name)
            raise place.error(problem, key, check)
        return row

    def explain(self, unknown: str) -> tuple[str, str]:
        """Return the kind of problem that an unknown id is, and a sentence about it."""
        problem = f"unknown {self._kind} {shown(unknown)}"
        other = self._levels.meant(unknown) if self._kind == "document" else None
        if other is not None:
            return ID_LEVEL, f"{problem}: it is {other.level}; probably meant: " + shown(
                other.document_id
            )
        problem += self._nearest(unknown)
        if self._unknown == 1 and self._remedy:
            problem += f"; {self._remedy}"
        return UNKNOWN_ID, problem

    @cached_property
    def _levels(self) -> _IdLevels:
        return _IdLevels(self._rows)

    def _nearest(self, name: str) -> str:
        self._unknown += 1
        if len(self._rows) > MAX_COMPARED_IDS or self._unknown > MAX_EXPLAINED_IDS:
            return ""
        deeper = [other for other in self._rows if other.endswith(f"/{name}")]
        bare = name.lstrip("0")
        padded = [other for other in self._rows if other.lstrip("0") == bare]
        near = padded or deeper or get_close_matches(name, self._rows, n=1)
        return f" (did you mean {shown(near[0])}?)" if near else ""


class _Meant(NamedTuple):
    """What an unknown id seems to be, in words, and the document that is probably meant."""

    level: str
    document_id: str


class _IdLevels:
    """Recognises ids of another level among the ids of a corpus."""

    def __init__(self, document_ids: Iterable[str]) -> None:
        """Know the ids of all documents."""
        self._ids = frozenset(document_ids)

    def meant(self, unknown: str) -> _Meant | None:
        """Return which document an unknown id probably means; None when it is not clear."""
        for pattern in _CHUNK_OF:
            chunk = pattern.fullmatch(unknown)
            if chunk is not None and chunk["document"] in self._ids:
                return _Meant("the id of a chunk", chunk["document"])
        if unknown in self._by_stem:
            document = self._by_stem[unknown]
            return _Meant("a file name without its end", document) if document else None
        if unknown in self._by_chunk:
            return _Meant("the id of a document whose chunks are judged", self._by_chunk[unknown])
        return None

    @cached_property
    def _by_stem(self) -> dict[str, str | None]:
        """File name, with and without its folders, to document; None where several have it."""
        by_stem: dict[str, str | None] = {}
        for document_id in self._ids:
            path = PurePosixPath(document_id)
            if path.suffix[1:].isalpha():
                for stem in {path.stem, path.with_suffix("").as_posix()}:
                    by_stem[stem] = None if stem in by_stem else document_id
        return by_stem

    @cached_property
    def _by_chunk(self) -> dict[str, str]:
        """Document to its first chunk, where the corpus consists of chunks ``document#0-200``."""
        first_chunks: dict[str, str] = {}
        for chunk_id in sorted(self._ids):
            chunk = _CHUNK_OF[0].fullmatch(chunk_id)
            if chunk is not None:
                first_chunks.setdefault(chunk["document"], chunk_id)
        return first_chunks
