"""Imports torch, transformers and sentence-transformers without what they bring for training.

Both model libraries import scikit-learn and scipy's statistics for a handful of functions that
only their training and evaluation call, and these bring pandas and a thousand modules: together a
third of the time until a model is there. So while the libraries are imported, and in their own
import statements only, these functions are replaced by ones that import what they stand for when
they are called.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from types import SimpleNamespace
from typing import Any

from rag_assets.collections_paused import collections_paused
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

IMPORTERS = ("sentence_transformers", "transformers")

_one_at_a_time = Lock()


def import_model_libraries() -> None:
    """Import torch, transformers and sentence-transformers, if they are not there yet."""
    if "sentence_transformers" in sys.modules:
        return
    with _one_at_a_time, late_functions(), collections_paused():
        import torch  # noqa: F401

        with quiet_models():
            import sentence_transformers  # noqa: F401


@contextmanager
def late_functions() -> Iterator[None]:
    """Give the importers late functions inside the block; the imports of all others are as ever."""
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
        return imported(name, globals, locals, fromlist or (), level)

    builtins.__import__ = late_or_imported
    try:
        yield
    finally:
        builtins.__import__ = imported


def _is_importer(names: Mapping[str, object] | None) -> bool:
    module = str((names or {}).get("__name__", ""))
    return module.partition(".")[0] in IMPORTERS


def _late(module: str, name: str) -> Callable[..., Any]:
    def late(*args: object, **options: object) -> Any:  # noqa: ANN401 (whatever it gives)
        return getattr(import_module(module), name)(*args, **options)

    late.__name__ = late.__qualname__ = name
    return late
