"""Where the data of the benchmarks is; the project ships none."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VARIABLE = "RAG_ASSETS_SHARED_DATA"

PLACES = {
    "cranfield": ("cranfield",),
    "squad": ("squad_dev_v2/dev-v2.0.rebuilt.json", "dev-v2.0.json", "squad_answerable.json"),
    "squad_train": ("squad_train_part/train-part.json", "train-v1.1.json"),
}
"""Name -> where it may lie below a folder of data; the first that is there is taken."""


def folders() -> list[Path]:
    """Return the folders in which data is looked for: that of the variable, or the usual ones."""
    if asked := os.environ.get(VARIABLE):
        return [Path(asked)]
    return [REPOSITORY / "build" / "benchmarks", REPOSITORY.parent / "shared" / "data"]


def find(name: str) -> Path:
    """Return the file or folder of a data set.

    Raises:
        SystemExit: it is in none of the folders.
    """
    for folder in folders():
        for place in PLACES[name]:
            if (folder / place).exists():
                return folder / place
    looked = ", ".join(map(str, folders()))
    raise SystemExit(f"no data '{name}' ({' or '.join(PLACES[name])}) in {looked}: set {VARIABLE}")
