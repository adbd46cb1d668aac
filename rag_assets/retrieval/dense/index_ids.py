"""The ids of an index's chunks, as the file that lies beside its vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

IDS_FILE = "chunk_ids.json"


def save_ids(chunk_ids: Sequence[str], folder: Path) -> None:
    """Write the ids into an existing folder, in their order."""
    text = json.dumps(list(chunk_ids), ensure_ascii=False)
    (folder / IDS_FILE).write_text(text, encoding="utf-8")


def load_ids(folder: Path) -> tuple[str, ...]:
    """Read what ``save_ids`` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no JSON list.
    """
    ids = json.loads((folder / IDS_FILE).read_text(encoding="utf-8"))
    if not isinstance(ids, list):
        raise ValueError(f"{IDS_FILE} is not a JSON list")
    return tuple(ids)
