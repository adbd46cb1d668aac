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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LENGTHS = (24, 8)
"""Shortest fragments in characters; shorter ones are taken where a text has no longer one."""

MAX_CHARACTERS = 60
"""A fragment is cut to so many characters: a part of a text may have been kept."""

MAX_FRAGMENTS = 8
"""So many fragments of one text are looked for: the first, the last, and some between."""

GROUP = 32
"""So many fragments make one regular expression: RE2 is many times slower with hundreds."""


@dataclass(frozen=True)
class Fragments:
    """What is looked for.

    Attributes:
        texts: fragments of the texts that are looked for, at most :data:`MAX_FRAGMENTS` of each.
    """

    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Fragments:
        """Cut texts into fragments."""
        return cls(tuple(sorted({piece for text in texts for piece in _some(text)})))

    @property
    def patterns(self) -> list[str]:
        """Regular expressions of which one matches where any of them stands, as RE2 reads them."""
        escaped = [rf"\Q{text}\E" for text in self.texts]
        return ["|".join(escaped[n : n + GROUP]) for n in range(0, len(escaped), GROUP)]

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
        matches = pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.bool_))])
        for pattern in self.patterns:
            matches = pc.or_(
                matches, pc.fill_null(pc.match_substring_regex(column, pattern), False)
            )
        return matches

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


def _some(text: str) -> list[str]:
    """Return at most :data:`MAX_FRAGMENTS` fragments of a text, spread over all of it."""
    pieces = list(_pieces(text))
    places = np.linspace(0, len(pieces) - 1, min(len(pieces), MAX_FRAGMENTS)).round().astype(int)
    return [pieces[place] for place in places]


def _pieces(text: str) -> Iterator[str]:
    runs = [run.strip() for run in re.split(r"[\"'\\\x00-\x1f<>&]", text)]
    for shortest in LENGTHS:
        pieces = [run[:MAX_CHARACTERS].strip() for run in runs if len(run) >= shortest]
        if pieces:
            yield from pieces
            return
    yield from [run for run in runs if len(run) > 2]


def _forms(text: str) -> set[bytes]:
    """Return the bytes as which a text may stand in a file."""
    once = json.dumps(text)[1:-1]
    return {one.encode() for one in (text, once, json.dumps(once)[1:-1])}


def _strings(column: pa.Array) -> Iterator[pa.Array]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield column
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _strings(column.flatten())
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _strings(part)
