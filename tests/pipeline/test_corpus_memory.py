"""A corpus is read, hashed and written batch by batch: what that needs beside the table is bounded.

The whole table is in memory, once; what comes on top must not grow with the corpus.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "read_corpus.py"
SMALL, LARGE = 20, 60
"""Sizes of the file in MB."""


def measured(megabytes: int, way: str, folder: Path) -> dict[str, Any]:
    out = folder / f"{way}-{megabytes}.json"
    call = [sys.executable, str(BENCHMARK), "--megabytes", str(megabytes), "--way", way]
    subprocess.run([*call, "--out", str(out)], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {"bytes": found["bytes"], **found["ways"][way]}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "at_most"), [("reader", 3.0), ("documents", 4.0)])
def test_reading_holds_the_corpus_once(tmp_path: Path, way: str, at_most: float) -> None:
    """Digests that copied the table took 6.1 times the size; Python objects take 5.6 times."""
    small, large = measured(SMALL, way, tmp_path), measured(LARGE, way, tmp_path)
    assert large["rows"] > 2 * small["rows"]
    assert large["peak"] - large["imports"] < at_most * large["bytes"]
    growth = (large["peak"] - small["peak"]) / (large["bytes"] - small["bytes"])
    assert growth < 2.5
