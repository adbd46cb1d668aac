"""Texts, files and folders as SQL, DuckDB and SQLAlchemy take them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rag_assets.store.settings import StoreSettings

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


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted_path(path: Path) -> str:
    """Return the path of one file as a literal: DuckDB takes every path for a pattern."""
    return quoted(_escaped(path))


def parquet_rows(path: Path) -> str:
    """Return what reads the rows of a Parquet file, and no columns from the names of folders."""
    return f"read_parquet({quoted_path(path)}, hive_partitioning = false)"


class ViewPlace:
    """How views of a DuckDB file find the files of a store: from where the DuckDB file lies now.

    SQL knows that place by the default of DuckDB's setting ``temp_directory``, the path of the
    opened file and ``.tmp``. Where the file is attached to another one, the place where it was
    built counts, and ``guard`` refuses to read what may be the files of another store.
    """

    def __init__(self, settings: StoreSettings) -> None:
        """Take the file to be ``settings.warehouse``."""
        state, store = (os.path.realpath(place) for place in (settings.state_dir, settings.store))
        name = settings.warehouse.name
        pattern = quoted(f"^(.*/){re.escape(name)}[.]tmp$")
        own = f"regexp_extract(current_setting('temp_directory'), {pattern}, 1)"
        built = f"coalesce(nullif({own}, ''), {quoted(state + '/')})"
        if Path(store).is_relative_to(state):
            below = Path(store).relative_to(state).as_posix()
            self._home = f"regexp_replace({built}, '([*?[])', '[\\1]', 'g')"
            self._below = "" if below == "." else f"{_escaped(below)}/"
            opened = f"{built} || {quoted(name)}"
        else:
            self._home = quoted("")
            self._below = f"{_escaped(store)}/"
            opened = quoted(f"{state}/{name}")
        remedy = (
            f"{name} was copied, moved or attached: open it where it lies, by itself, or write "
        )
        remedy += "it anew: rag-assets warehouse rebuild"
        self.guard = (
            "CASE WHEN (SELECT list(path) FROM duckdb_databases() WHERE "
            f"parse_filename(path) = {quoted(name)}) = [{opened}] THEN true "
            f"ELSE error({quoted(remedy)}) END"
        )

    def files(self, pattern: str) -> str:
        """Return the expression for files by a pattern below the store."""
        return f"{self._home} || {quoted(self._below + pattern)}"

    def parquet_rows(self, file: str) -> str:
        """Return what reads the rows of a Parquet file, by its path below the store."""
        return f"read_parquet({self.files(_escaped(file))}, hive_partitioning = false)"


def _escaped(path: Path | str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path))
