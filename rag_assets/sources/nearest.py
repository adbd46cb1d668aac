"""Which layout comes nearest to what is at a path of no known format, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag_assets.sources.dataset import Dataset
from rag_assets.text_files import suffix

_BY_SUFFIX = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet", ".tsv": "trec"}
"""Files that people name where a folder is meant."""


def nearest(path: Path, readers: Mapping[str, type[Dataset]]) -> str | None:
    """Return the layout of which most is there, and what is missing; None where nothing is.

    Args:
        path: a file or folder that no reader recognises.
        readers: all formats by name; of equally near ones the first is told.
    """
    best: tuple[int, int, str] | None = None
    for name, reader in readers.items():
        parts = reader.parts(path)
        found = sum(parts.values())
        if found and (best is None or (found, -len(parts)) > best[:2]):
            missing = [part for part, is_there in parts.items() if not is_there]
            best = (found, -len(parts), _told(name, reader, missing))
    if best is not None:
        return best[2]
    named = _BY_SUFFIX.get(suffix(path)) if path.is_file() else None
    if named is None:
        return None
    return f"nearest: {readers[named].layout} ({named}); a folder is read, not one file of it"


def _told(name: str, reader: type[Dataset], missing: list[str]) -> str:
    if not missing:
        return f"nearest: {reader.layout} ({name}), but it begins otherwise; say `format: {name}`"
    return f"nearest: {reader.layout} ({name}), where there is no {', no '.join(missing)}"
