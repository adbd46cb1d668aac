"""Folders and files under a name that is nothing but a name to other programs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_NOT_PLAIN = re.compile(r"[?%*\[]")
"""What Dagster, SQLAlchemy and DuckDB read as an address or a pattern where they open a path."""


@contextmanager
def plain_name(folder: Path) -> Iterator[Path]:
    """Yield the path of a folder, or of a link to it while the block lasts.

    SQLite names one by where a link leads, so who
    opens it by the other path waits for the same locks.
    """
    if _NOT_PLAIN.search(str(folder)) is None:
        yield folder
        return
    with TemporaryDirectory() as place:
        link = Path(place) / "linked"
        link.symlink_to(folder, target_is_directory=True)
        yield link


@contextmanager
def plain_file(path: Path) -> Iterator[Path]:
    """Yield where a new file is to be written; what is written there is at ``path`` afterwards.

    DuckDB follows links, so this one is made elsewhere and copied.
    """
    if _NOT_PLAIN.search(str(path)) is None:
        yield path
        return
    with TemporaryDirectory() as place:
        made = Path(place) / "made"
        yield made
        shutil.copyfile(made, path)
