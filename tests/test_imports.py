"""What an import costs: the heavy libraries are loaded when something needs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
HEAVY = ("faiss", "scipy", "sentence_transformers", "sklearn", "torch", "transformers")
SCRIPT = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(module: str) -> set[str]:
    """Return the names of all modules that a new process has after importing one."""
    command = [sys.executable, "-c", SCRIPT, module]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["rag_assets", "rag_assets.cli", "rag_assets.definitions"])
def test_import_loads_no_heavy_library(module: str) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert loaded.isdisjoint(HEAVY)


def test_package_alone_loads_no_dagster() -> None:
    assert "dagster" not in loaded_by("rag_assets")
