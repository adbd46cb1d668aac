"""What runs the steps of a run."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module

import dagster as dg

from rag_assets.errors import UsageError

VARIABLE = "RAG_ASSETS_EXECUTOR"

PRELOADED = (
    "rag_assets.assets.experiment_definitions",
    "rag_assets.assets.instance",
    "upath.registry",
)
"""Imported once a run; the processes of its steps are forked from there, so none imports again.

The last two bring what Dagster imports with an instance and with an IO manager.
"""


def executor_of(text: str | None, *, where: str = VARIABLE) -> dg.ExecutorDefinition | None:
    """Return the executor of a code location; equal texts give the same object.

    Args:
        text: ``in_process``: one step after the other, in the process of the run.
            ``multiprocess``: a process for each step, ``multiprocess(n)`` for n at a time; without
            n as many as there are cores. ``module:name``: an executor of one's own, or of a
            package, such as a configured ``dask_executor``. None or empty is what ``VARIABLE``
            says, and without it Dagster's default: ``multiprocess``, each process from scratch.
        where: what gives the text, for the message.

    Raises:
        UsageError: it is none of these, or the module has no such executor.
    """
    if not text:
        text, where = os.environ.get(VARIABLE), VARIABLE
    if not text:
        return None
    if text == "in_process":
        return dg.in_process_executor
    match = re.fullmatch(r"multiprocess(?:\(([1-9][0-9]{0,3})\))?", text, re.ASCII)
    if match is not None:
        return _multiprocess(int(match[1] or 0))
    if re.fullmatch(r"[\w.]+:\w+", text):
        return _imported(text, where)
    raise UsageError(
        f"{where} must be in_process, multiprocess, multiprocess(n), n steps at a time, or "
        f"module:name of an executor; found {text!r}"
    )


@cache
def _multiprocess(limit: int) -> dg.ExecutorDefinition:
    """Return the executor with ``limit`` steps at a time; 0 is one for each core."""
    start = {"forkserver": {"preload_modules": [*PRELOADED]}}
    return dg.multiprocess_executor.configured({"max_concurrent": limit, "start_method": start})


def _imported(text: str, where: str) -> dg.ExecutorDefinition:
    module, _, name = text.partition(":")
    try:
        executor = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{where}: {text!r} cannot be imported: {error}") from error
    if not isinstance(executor, dg.ExecutorDefinition):
        raise UsageError(f"{where}: {text!r} is not an executor, it is {type(executor).__name__}")
    return executor
