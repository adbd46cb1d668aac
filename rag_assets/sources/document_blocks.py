"""Documents that are read in blocks: of a file in which little changed, only that is parsed.

For formats whose documents each stand in a record of their own. Whatever is wrong in a file is left
to the reader of whole files, which alone decides what is said first, and on which line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError
from rag_assets.sources.dataset import Read
from rag_assets.sources.rows import empty_documents
from rag_assets.store.blocks import BlockedTable, KnownBlocks, in_blocks, records_digest

_KNOWN: ContextVar[KnownBlocks | None] = ContextVar("known_blocks", default=None)


Where = TypeVar("Where")
"""What the reader of a format needs to know of the place of a record: its line, its file."""


Parse = Callable[[Sequence[tuple[Where, bytes]]], pa.Table]
"""Parses the records of a block."""


@contextmanager
def reading_in_blocks(known: KnownBlocks) -> Iterator[None]:
    """Let readers inside read in blocks, and parse those only that are not known."""
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def read_in_blocks(
    records: Callable[[], Iterable[tuple[Where, bytes]]],
    parser: Callable[[tuple[Where, bytes]], tuple[str, Parse[Where]]],
    notes: Callable[[], Sequence[str]] = tuple,
) -> Read | None:
    """Return the documents of some records.

    Args:
        records: gives them in their order, each with its place.
        parser: gives, for the first record, what parses the records of a block into a table of
            :data:`rag_assets.schemas.DOCUMENTS`, and all that this depends on besides them.
        notes: what was odd about the records, asked for after the last one.

    Returns:
        None where nobody wants blocks, there is no document, or anything is wrong: the file is then
        to be read as a whole.
    """
    known = _KNOWN.get()
    if known is None:
        return None
    built, made = BlockedTable(known), None
    try:
        for block in in_blocks(records()):
            seed, parse = made = made or parser(block[0])
            built.add(records_digest([raw for _, raw in block], seed), partial(parse, block))
    except DataError:
        return None
    if not built.blocks:
        return None
    table = built.table()
    if pc.count_distinct(table.column("document_id")).as_py() < table.num_rows:
        return None
    return Read(table, [*notes(), *empty_documents(table)], built.blocks)
