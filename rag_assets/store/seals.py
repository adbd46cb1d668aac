"""Seals: the checksum of a Parquet file inside it, over every byte of it but its own.

A Parquet file says nothing of its body: readers notice a damaged footer, but most damage to the
values is read as other values. So the footer gets an entry with the SHA-256 of the whole file, in
which the 64 digits of the checksum count as zeros. One value covers body and footer, the file stays
a plain Parquet file, and equal content still gives equal bytes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

MARK = "rag_assets.sha256"
"""Key of the entry in the footer's metadata."""

UNSEALED = "0" * 64
"""The entry's value while the file is written."""

_BLOCK = 1 << 20
_TAIL = 8
"""The last bytes of a Parquet file: the footer's length (4 bytes), and ``PAR1``."""


def seal(path: Path) -> None:
    """Put the checksum into a file that was written with ``MARK: UNSEALED`` in its metadata.

    Raises:
        ValueError: it has no such entry.
        OSError: it cannot be written.
    """
    with path.open("r+b") as file:
        place = _place(file)
        if place is None:
            raise ValueError(f"{path} was not written to be sealed")
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)


def is_sealed(path: Path) -> bool | None:
    """Return whether a file is as it was sealed; None: it never was, by an older version.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        place = _place(file)
        if place is None:
            return None
        file.seek(place)
        return file.read(len(UNSEALED)) == _digest(file, place)


def _place(file: BinaryIO) -> int | None:
    """Return where the digits stand: after the key, the field's type and the value's length."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TAIL))
    length = int.from_bytes(file.read(4), "little")
    start = size - _TAIL - length
    if start < 0:
        return None
    file.seek(start)
    found = file.read(length).rfind(MARK.encode())
    return None if found < 0 else start + found + len(MARK) + 2


def _digest(file: BinaryIO, place: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    left = place
    while left and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    digest.update(UNSEALED.encode())
    file.seek(place + len(UNSEALED))
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest().encode()
