"""Writers: from documents, queries and qrels to the formats of other tools.

One module a format; a new one is added to :data:`WRITERS`.
"""

from __future__ import annotations

from pathlib import Path

from rag_assets.errors import UsageError, allowed_names
from rag_assets.sources.writers.beir import write_beir
from rag_assets.sources.writers.jsonl import write_jsonl
from rag_assets.sources.writers.llamaindex import write_llamaindex
from rag_assets.sources.writers.tables import Tables, Writer
from rag_assets.sources.writers.trec import write_trec
from rag_assets.store.atomic import atomic_directory

__all__ = ["WRITERS", "Tables", "write_dataset"]

WRITERS: dict[str, Writer] = {
    "jsonl": write_jsonl,
    "beir": write_beir,
    "trec": write_trec,
    "llamaindex": write_llamaindex,
}
"""All formats that can be written."""


def write_dataset(tables: Tables, format: str, folder: Path) -> list[str]:
    """Write tables as ``folder``, which is there in the end only when all of it is.

    Returns:
        One line for each kind of thing that the format does not keep.

    Raises:
        UsageError: the format is unknown, or something is at ``folder`` already.
        DataError: the format cannot hold an id.
        StoreError: the folder cannot be written.
    """
    if format not in WRITERS:
        raise UsageError(f"unknown format to write {allowed_names(format, WRITERS)}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder}: already exists; choose a new folder")
    with atomic_directory(folder) as temporary:
        return WRITERS[format](tables, temporary)
