"""Files of lines that are only ever appended to, by several processes at once."""

from __future__ import annotations

import os
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.regular_files import regular


def append_line(file: Path, text: str) -> None:
    """Append a line in one write; it is on the disk when this returns.

    Raises:
        StoreError: the file cannot be written.
    """
    line = text.encode() + b"\n"
    try:
        regular(file)
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a torn line stays one line, and is reported as such
            if os.write(descriptor, line) != len(line):
                raise StoreError(f"cannot write {file}: the disk is full")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror or error}") from error
