from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from rag_assets.embedding.model_libraries import LATE, late_functions

SCRIPT = """
import builtins, inspect, sys
from rag_assets.embedding.models import DEFAULT_MODEL, resolve_model
from rag_assets.embedding.loading import load_model
from rag_assets.embedding.model_libraries import SCAN
own = builtins.__import__
load_model(resolve_model(DEFAULT_MODEL)).encode(["a text"], show_progress_bar=False)
assert builtins.__import__ is own
late = [name for name in ("sklearn", "scipy.stats", "scipy.optimize", "pandas", "datasets")
        if name in sys.modules]
assert not late, late
from transformers.utils import import_utils
scanned = getattr(import_utils, SCAN).cache_info()
assert scanned.hits > 100, scanned

from sentence_transformers.util import manhattan_sim
assert manhattan_sim([[1.0, 2.0]], [[1.0, 4.0]]).tolist() == [[-2.0]]
from sklearn.metrics import pairwise_distances
assert inspect.getmodule(pairwise_distances).__name__.startswith("sklearn.")
"""


OFFERED = """
import transformers, transformers.models
for module in (transformers, transformers.models):
    print(sorted(module._class_to_module.items()), sorted(module._object_missing_backend))
"""


def printed_by(script: str) -> bytes:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout


def test_what_only_training_uses_is_imported_when_it_is_called() -> None:
    """A new version of a library that imports more, or in another way, fails here."""
    offered = printed_by(SCRIPT + OFFERED)
    assert offered == printed_by(OFFERED) != b""


def test_what_is_late_is_a_function() -> None:
    for module, names in LATE.items():
        for name in names:
            assert inspect.isroutine(getattr(import_module(module), name)), f"{module}.{name}"


@pytest.mark.parametrize(
    ("importer", "asked", "is_late"),
    [
        ("transformers.some", "pearsonr", True),
        ("sentence_transformers", "pearsonr", True),
        ("transformers.some", "pearsonr, kendalltau", False),
        ("transformers_of_others", "pearsonr", False),
    ],
)
def test_only_known_functions_and_only_of_the_model_libraries_are_late(
    importer: str, asked: str, is_late: bool
) -> None:
    names: dict[str, Any] = {"__name__": importer}
    with late_functions():
        exec(f"from scipy.stats import {asked}", names)
    own = import_module("scipy.stats").pearsonr
    assert (names["pearsonr"] is not own) == is_late
    assert names["pearsonr"]([1, 2, 4], [1, 3, 4]) == own([1, 2, 4], [1, 3, 4])
