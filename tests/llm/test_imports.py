"""A language model costs nothing until it is asked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = (
    "import importlib, json, sys; importlib.import_module(sys.argv[1]); "
    "print(json.dumps(list(sys.modules)))"
)
HEAVY = {"dagster", "openai", "torch", "transformers"}


@pytest.mark.parametrize(
    "module",
    [
        "rag_assets.llm.openai_server",
        "rag_assets.labels.generation.question_generation",
    ],
)
def test_import_loads_no_heavy_library(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, module], capture_output=True, text=True, check=True
    )
    assert HEAVY.isdisjoint(json.loads(result.stdout))
