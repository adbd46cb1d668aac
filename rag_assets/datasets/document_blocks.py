"""Documents that are read in blocks: of a file in which little changed, only that is parsed.

For formats whose documents each stand in a record of their own. Whatever is wrong in a file is left
to the reader of whole files, which alone decides what is said first, and on which line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.datasets.dataset import Read
from rag_assets.datasets.rows import empty_documents
from rag_assets.errors import DataError
from rag_assets.store.blocks import BlockedTable, KnownBlocks, in_blocks, records_digest

_KNOWN: ContextVar[KnownBlocks | None] = ContextVar("known_blocks", default=None)


class Raw(NamedTuple):
    """A record before it is parsed: where it stands, and its bytes."""

    file: Path
    line: int
    content: bytes


@contextmanager
def reading_in_blocks(known: KnownBlocks) -> Iterator[None]:
    """Let readers inside read in blocks, and parse those only that are not known."""
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def read_in_blocks(
    records: Callable[[], Iterable[Raw]],
    parser: Callable[[Raw], tuple[str, Callable[[Sequence[Raw]], pa.Table]]],
    notes: Callable[[], Sequence[str]] = tuple,
) -> Read | None:
    """Return the documents of some records.

    Args:
        records: gives them in their order.
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
    built = BlockedTable(known)
    try:
        for block in in_blocks(records(), _content, _size):
            if not built.blocks:
                seed, parse = parser(block[0])
            built.add(records_digest([raw.content for raw in block], seed), partial(parse, block))
    except DataError:
        return None
    if not built.blocks:
        return None
    table = built.table()
    if pc.count_distinct(table.column("document_id")).as_py() < table.num_rows:
        return None
    return Read(table, [*notes(), *empty_documents(table)], built.blocks)


def _content(raw: Raw) -> bytes:
    return raw.content


def _size(raw: Raw) -> int:
    return len(raw.content)
