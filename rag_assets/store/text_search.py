"""Looks for a text in stored files: in the bytes of any, in the columns and metadata of Parquet.

A text is looked for by fragments without quotes, backslashes and line breaks, so that one is found
inside JSON too, escaped once or twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LENGTHS = (24, 8)
"""Shortest fragments in characters; shorter ones are taken where a text has no longer one."""

LONGEST = 60
"""A fragment is cut to so many characters: a part of a text may have been kept."""

MOST = 500
"""So many fragments are looked for, the longest ones."""


@dataclass(frozen=True)
class Fragments:
    """What is looked for.

    Attributes:
        texts: pieces of the texts.
    """

    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Fragments:
        """Cut texts into fragments."""
        pieces = {piece for text in texts for piece in _pieces(text)}
        ordered = sorted(pieces, key=lambda piece: (-len(piece), piece))
        return cls(tuple(ordered[:MOST]))

    @property
    def pattern(self) -> str:
        """A regular expression that matches any of them, as RE2 reads it."""
        return "|".join(map(_escaped, self.texts))

    def in_file(self, path: Path) -> bool:
        """Return whether a file holds any of them; one that cannot be read as Parquet, as bytes."""
        if not self.texts:
            return False
        if path.suffix == ".parquet":
            try:
                return self._in_parquet(path)
            except (OSError, pa.ArrowException):
                pass
        return self._in_bytes(path.read_bytes())

    def in_column(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return of each text of a column whether it holds any of them."""
        if not self.texts:
            return pa.chunked_array([pa.array([False] * len(column), pa.bool_())])
        return pc.fill_null(pc.match_substring_regex(column, self.pattern), False)

    def _in_parquet(self, path: Path) -> bool:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
            if any(self._in_bytes(value) for value in metadata.values()):
                return True
            for batch in file.iter_batches(batch_size=10_000):
                for column in batch.columns:
                    for texts in _strings(column):
                        if pc.any(self.in_column(pa.chunked_array([texts]))).as_py():
                            return True
        return False

    def _in_bytes(self, content: bytes) -> bool:
        return any(form in content for text in self.texts for form in _forms(text))


def _pieces(text: str) -> Iterator[str]:
    runs = [run.strip() for run in re.split(r"[\"'\\\x00-\x1f<>&]", text)]
    for shortest in LENGTHS:
        found = [run[:LONGEST].strip() for run in runs if len(run) >= shortest]
        if found:
            yield from found
            return
    yield from [run for run in runs if len(run) > 2]


def _forms(text: str) -> set[bytes]:
    """Return the bytes as which a text may stand in a file."""
    once = json.dumps(text)[1:-1]
    return {one.encode() for one in (text, once, json.dumps(once)[1:-1])}


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII) if text.isascii() else _quoted(text)


def _quoted(text: str) -> str:
    """RE2 takes everything between these marks as it stands."""
    return rf"\Q{text}\E"


def _strings(column: pa.Array) -> Iterator[pa.Array]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield column
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _strings(column.flatten())
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _strings(part)
