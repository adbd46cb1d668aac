"""Texts and files as SQL has them."""

from __future__ import annotations

import re
from pathlib import Path


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted_path(path: Path) -> str:
    """Return the path of one file as a literal: DuckDB takes every path for a pattern."""
    return quoted(_escaped(path))


def quoted_pattern(folder: Path, pattern: str) -> str:
    """Return a pattern of files below a folder, whose own path is none, as a literal."""
    return quoted(f"{_escaped(folder)}/{pattern}")


def parquet_rows(path: Path) -> str:
    """Return what reads the rows of a Parquet file, and no columns from the names of folders."""
    return f"read_parquet({quoted_path(path)}, hive_partitioning = false)"


def _escaped(path: Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path))
