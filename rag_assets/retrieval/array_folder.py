"""The files of an index, and the layout that all sparse ones have.

Files are tables (``NAME.parquet``), arrays (``NAME.npy``) and JSON values (``NAME.json``), no
pickle. A sparse index says how often words stand in chunks, or what a model's components weigh in
them. Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same
chunks give the same files, byte for byte. It lies in segments, each of some chunks that follow one
another, as three tables: chunks; terms, where the row of a term is the number of its column; and
postings, those of all terms one after the other in that order, each with the row of its chunk in
the segment. What is of all chunks, such as in how many a term stands, is summed when it is opened:
so a changed chunk changes the files of its segment, and those of the others are the same. Vectors
that are searched exactly lie in segments too.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.ordering import byte_order_ranks
from rag_assets.store.artifacts import Block
from rag_assets.store.blocks import block_ends, records_digest
from rag_assets.store.canonical import permanent_hash
from rag_assets.store.parquet_files import read_parquet

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

CHUNK_IDS = "chunk_ids"
"""The ids of an index's chunks, by position: a list of texts."""

CHUNKS, TERMS, POSTINGS = "chunks", "terms", "postings"
"""The tables of a segment: ids of chunks, terms with the chunks that hold them, and numbers."""

COUNTED = (CHUNKS, TERMS, POSTINGS)
"""The tables of a segment that a search needs."""

SEGMENT = 1 << 22
"""Characters of a segment, on average, at least."""

MAX_SEGMENTS = 32
"""Of a large corpus, on average. An edit writes one again; a search looks into all of them."""

VECTOR_SIZE = 1 << 10
"""What the vector of a chunk counts when segments are divided, as so many characters."""

DIGESTS = "digests"
DIGESTS_FILE = f"{DIGESTS}.json"
"""What the segments of an index of vectors were made from: for the next index alone."""

LAYOUT = "layout"
"""In how many segments an index of vectors lies."""

PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}
"""How tables are written: their numbers are read as they lie in the file."""

IN_MEMORY = 1 << 20
"""Bytes on disk of a segment's table that is read into memory. Of a larger one only pages are."""

_PACKED = "DELTA_BINARY_PACKED"
"""How whole numbers are written: in a quarter of the bytes, and read as fast."""

MAX_GROUP_ROWS = 1 << 26
"""Rows of one group of a table: of several, a column would be copied when it is read."""


@dataclass(frozen=True)
class ArrayFolder:
    """A folder of an index; it exists."""

    path: Path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.path.iterdir())

    def save(self, **content: object) -> None:
        """Write tables, arrays, and JSON values."""
        for name, value in content.items():
            if isinstance(value, pa.Table):
                whole = [field.name for field in value.schema if pa.types.is_integer(field.type)]
                options = {**PLAIN, "column_encoding": dict.fromkeys(whole, _PACKED) or None}
                file = self.table_file(name)
                pq.write_table(value, file, row_group_size=MAX_GROUP_ROWS, **options)
            elif isinstance(value, np.ndarray):
                np.save(self.path / f"{name}.npy", value, allow_pickle=False)
            else:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
                (self.path / f"{name}.json").write_text(text, encoding="utf-8")

    def take_over(self, name: str, folder: ArrayFolder, other_name: str) -> None:
        """Have a file of another folder, which stays as it is: the same file, or a copy."""
        source, target = folder.path / other_name, self.path / name
        try:
            os.link(source, target)
        except FileNotFoundError as error:
            raise unreadable(source, error) from error
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, target)

    def array(self, name: str, *, mmap: bool = True) -> npt.NDArray[Any]:
        """Map an array, or read it."""
        file = self.path / f"{name}.npy"
        try:
            array = np.load(file, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise unreadable(file, error) from error
        return np.asarray(array)  # a view on the same memory, without the slow slices of np.memmap

    def table_file(self, name: str) -> Path:
        """Return where a table lies."""
        return self.path / f"{name}.parquet"

    def table(
        self, name: str, columns: Sequence[str] | None = None, in_memory: int | None = None
    ) -> pa.Table:
        """Read a table, or some of its columns; ``in_memory`` as of a builder of large tables."""
        file = self.table_file(name)
        try:
            return read_parquet(file, columns, mapped=True, in_memory=in_memory)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(file, error) from error

    def ends(self) -> list[str]:
        """Return what the names of the files of each segment end with."""
        return [*map(table_end, range(self.mapping(LAYOUT, ["segments"])["segments"]))]

    def texts(self, name: str) -> list[str]:
        """Read a JSON list."""
        value = self._value(name)
        if not isinstance(value, list):
            raise unreadable(self.path / f"{name}.json", "not a JSON list")
        return value

    def mapping(self, name: str, keys: Iterable[str] = ()) -> dict[str, Any]:
        """Read a JSON object that has at least these keys."""
        value = self._value(name)
        if not isinstance(value, dict) or not value.keys() >= set(keys):
            problem = f"not a JSON object with the keys {list(keys)}"
            raise unreadable(self.path / f"{name}.json", problem)
        return value

    def _value(self, name: str) -> object:
        file = self.path / f"{name}.json"
        try:
            value: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from error
        return value


def unreadable(path: Path, reason: Exception | str) -> StoreError:
    """Return the error of a file of an index that cannot be read."""
    text = getattr(reason, "strerror", None) or str(reason)
    return StoreError(f"{path}: file of an index cannot be read: {text}")


def table_of(**columns: pa.Array | npt.NDArray[Any]) -> pa.Table:
    """Return a table without nulls. Arrays are not copied: ``pa.array`` would import pandas."""
    arrays = [
        pa.Array.from_buffers(
            pa.from_numpy_dtype(column.dtype), column.size, [None, pa.py_buffer(column)]
        )
        if isinstance(column, np.ndarray)
        else column
        for column in columns.values()
    ]
    named = zip(columns, arrays, strict=True)
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in named])
    return pa.Table.from_arrays(arrays, schema=schema)


def numbers_of(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as an array; ``to_numpy`` would import pandas."""
    column = table.column(name)
    # combining one chunk copies it
    return np.from_dlpack(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())


def table_end(number: int) -> str:
    """Return what the names of a segment's files end with."""
    return f"-{number:04}"


def divided(
    ids: Sequence[str], texts_in: Callable[[slice], pa.ChunkedArray], sizes: Longs
) -> Iterator[tuple[str, Sequence[Block], slice]]:
    """Yield the digest of ids and texts, the blocks and the rows of each segment of ordered chunks.

    ``texts_in`` gives the texts of some of them.

    Where one ends follows from a hash of the last id of a block, as where a block ends does from
    one of the id of a record: a changed chunk changes its own segment, and at most splits it or
    joins it with the next one. Twice as large a corpus has segments twice as large. One that would
    be much larger is cut.
    """
    target = max(SEGMENT, 1 << (int(sizes.sum()) // MAX_SEGMENTS).bit_length())
    blocks: list[Block] = []
    first, together, ends = 0, 0, block_ends(ids, sizes.data)  # its numbers are Python's
    for start, end in pairwise([0, *ends]):
        texts = texts_in(slice(start, end)).combine_chunks()
        blocks.append(Block(records_digest(texts, "texts"), end - start))
        size = int(sizes[start:end].sum())
        together += size
        chance = int.from_bytes(permanent_hash(ids[end - 1])[:4])
        if chance * target < size << 32 or together >= 2 * target or end == ends[-1]:
            names = pa.array(ids[first:end], pa.string())
            digest = records_digest(names, " ".join(block.digest for block in blocks))
            yield digest, blocks, slice(first, end)
            blocks, first, together = [], end, 0


def new_segments(
    ids: Sequence[str], texts: Sequence[str], files: ArrayFolder, earlier: Path | None
) -> tuple[list[int], Sequence[tuple[str, Sequence[str], npt.NDArray[Any]]]]:
    """Begin an index of vectors with the segments of ``earlier`` that have the same chunks.

    The vector of a chunk follows from its text, there as here. Returns the rows of the chunks of
    all other segments, ascending; and of each of these what the names of its files end with, its
    ids, ascending, and where each of them stands among the rows.
    """
    order = byte_order_ranks(ids).argsort()
    ordered = [ids[row] for row in order]
    contents = pa.table({"text": [texts[row] for row in order]})["text"]
    other, stored = ArrayFolder(earlier or files.path), dict[str, str]()
    with suppress(StoreError):  # there is none, or it is no such index: everything is written
        digests = other.mapping(DIGESTS, [DIGESTS])[DIGESTS]
        stored = {digest: table_end(number) for number, digest in enumerate(digests)}
    present, new = list[str](), list[tuple[str, slice]]()
    for digest, _, part in divided(ordered, contents.__getitem__, np.full(len(ids), VECTOR_SIZE)):
        end = table_end(len(present))
        present.append(digest)
        if digest not in stored:
            new.append((end, part))
            continue
        for file in other.path.glob(f"*{stored[digest]}.*"):
            files.take_over(file.name.replace(stored[digest], end), other, file.name)
    files.save(**{DIGESTS: {DIGESTS: present}, LAYOUT: {"segments": len(present)}})
    rows = np.sort(np.concatenate([order[:0], *(order[part] for _, part in new)]))
    segments = [(end, ordered[part], rows.searchsorted(order[part])) for end, part in new]
    return rows.tolist(), segments


class Entries(NamedTuple):
    """The entries of a term: rows of chunks, ascending, and a number in each."""

    rows: Ints
    numbers: npt.NDArray[Any]


@dataclass(frozen=True)
class Segment:
    """A sparse matrix by columns, of chunks that follow one another in an index.

    Attributes:
        chunks: a row for each, with its ``chunk_id``, and what else is to be known of it.
        terms: a row for each column: ``term``, ``document_frequency``, which is the number of its
            entries, and what else is to be known of it.
        entries: of all columns, one after the other: rows of chunks, ascending within a column, and
            a weight as float32, or a count of the smallest type that holds all.
    """

    chunks: pa.Table
    terms: pa.Table
    entries: Entries

    @property
    def holding(self) -> Longs:
        """Number of chunks with an entry in each column, int64, shape (columns,)."""
        holding: Longs = numbers_of(self.terms, "document_frequency")
        return holding

    @cached_property
    def starts(self) -> npt.NDArray[np.uint32]:
        """The first entry of each column, and the end of the last."""
        return np.append(np.zeros(1, np.uint32), np.cumsum(self.holding, dtype=np.uint32))

    def column(self, number: int) -> Entries:
        """Return the entries of one column."""
        part = slice(self.starts[number], self.starts[number + 1])
        return Entries(self.entries.rows[part], self.entries.numbers[part])

    def tables(self) -> dict[str, pa.Table]:
        """Return what is written, by name."""
        numbers = np.repeat(np.arange(self.terms.num_rows, dtype=np.int32), self.holding)
        rows, weights = self.entries
        postings = table_of(number=numbers, row=rows, weight=weights)
        return {CHUNKS: self.chunks, TERMS: self.terms, POSTINGS: postings}

    @classmethod
    def load(cls, files: ArrayFolder, end: str) -> Segment:
        """Open the tables whose names end so."""
        postings = files.table(f"{POSTINGS}{end}", ["row", "weight"], IN_MEMORY)
        chunks, terms = (
            files.table(f"{name}{end}", in_memory=IN_MEMORY) for name in (CHUNKS, TERMS)
        )
        n_entries = int(numbers_of(terms, "document_frequency").sum())
        if n_entries != postings.num_rows:
            problem = f"{postings.num_rows} rows for {n_entries} of its terms"
            raise unreadable(files.table_file(f"{POSTINGS}{end}"), problem)
        entries = Entries(numbers_of(postings, "row"), numbers_of(postings, "weight"))
        return cls(chunks, terms, entries)


def sums(
    columns: Sequence[Entries], n_totals: int, factors: Floats | None, starts: Longs | None = None
) -> Floats:
    """Return the sum of some columns, each times its factor, added in the order of ``columns``.

    Returns:
        float64, shape (n_totals,), 0 without an entry. Rows of a column count from its start.
    """
    if not columns:
        return np.zeros(n_totals)
    sizes = [column.rows.size for column in columns]
    values = np.concatenate([column.numbers for column in columns])
    if factors is not None:
        values = np.multiply(values, np.repeat(factors, sizes), dtype=np.float64)
    rows = np.concatenate([column.rows for column in columns])
    if starts is not None:
        rows = rows + np.repeat(starts, sizes)
    # adds in the order of the entries, so in the order of the columns, in one compiled loop
    totals = np.bincount(rows, weights=values, minlength=n_totals)
    return totals.astype(np.float64, copy=False)
