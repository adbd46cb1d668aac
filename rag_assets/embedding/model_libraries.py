"""Imports torch, transformers and sentence-transformers without what they bring for training.

Both model libraries import scikit-learn and scipy's statistics for a handful of functions that
only their training and evaluation call, and these bring pandas and a thousand modules: together a
third of the time until a model is there. So while the libraries are imported, and in their own
import statements only, these functions are replaced by ones that import what they stand for when
they are called. Nothing else is changed: a model's classes and its vectors are those of the
libraries.
"""

from __future__ import annotations

import builtins
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from threading import Lock
from types import SimpleNamespace
from typing import Any

from rag_assets.embedding.quiet import quiet_models

LATE = {
    "sklearn.metrics": {
        "average_precision_score",
        "f1_score",
        "ndcg_score",
        "pairwise_distances",
        "roc_curve",
    },
    "scipy.optimize": {"linear_sum_assignment"},
    "scipy.stats": {"pearsonr", "spearmanr"},
}
"""Functions that are imported when they are called; a module of which any other is asked for is
imported at once, as without this file."""

SCAN = "create_import_structure_from_path"
"""The function of transformers that finds out what a folder of its modules defines."""

IMPORTERS = ("sentence_transformers", "transformers")

_one_at_a_time = Lock()


def import_model_libraries() -> None:
    """Import torch, transformers and sentence-transformers, if they are not there yet."""
    if "sentence_transformers" in sys.modules:
        return
    with _one_at_a_time, late_functions(), _nothing_collected():
        import torch  # noqa: F401

        with quiet_models():
            import sentence_transformers  # noqa: F401


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Leave out the collection of garbage: of a million new objects nearly all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def late_functions() -> Iterator[None]:
    """Give the importers late functions inside the block; what others import is as ever."""
    imported = builtins.__import__

    def late_or_imported(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:  # noqa: ANN401 (a module, or what has its functions)
        asked = set(fromlist or ())
        if asked and name in LATE and asked <= LATE[name] and _is_importer(globals):
            return SimpleNamespace(**{own: _late(name, own) for own in asked})
        module = imported(name, globals, locals, fromlist or (), level)
        if name.endswith("import_utils") and _is_importer(globals):
            _keep_what_is_scanned(module)
        return module

    builtins.__import__ = late_or_imported
    try:
        yield
    finally:
        builtins.__import__ = imported


def _keep_what_is_scanned(module: Any) -> None:  # noqa: ANN401 (a module)
    """Let transformers read the files of its 550 models once, and not twice.

    It remembers what it found, but of 128 folders only. Where it does so in another way, it is left
    alone.
    """
    scan: Any = getattr(module, SCAN, None)
    plain = getattr(scan, "__wrapped__", None)
    if plain is None or not hasattr(scan, "cache_parameters"):
        return
    if scan.cache_parameters()["maxsize"] is not None:
        setattr(module, SCAN, lru_cache(maxsize=None)(plain))


def _is_importer(names: Mapping[str, object] | None) -> bool:
    module = str((names or {}).get("__name__", ""))
    return module.partition(".")[0] in IMPORTERS


def _late(module: str, name: str) -> Callable[..., Any]:
    def late(*args: object, **options: object) -> Any:  # noqa: ANN401 (whatever it gives)
        return getattr(import_module(module), name)(*args, **options)

    late.__name__ = late.__qualname__ = name
    return late
