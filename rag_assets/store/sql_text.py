"""Texts and files as SQL has them."""

from __future__ import annotations

from pathlib import Path


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def parquet_rows(path: Path) -> str:
    """Return what reads the rows of a Parquet file, and no columns from the names of folders."""
    return f"read_parquet({quoted(str(path))}, hive_partitioning = false)"
