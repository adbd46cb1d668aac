"""The family of errors that a user can meet.

Each carries one sentence that says what was found, where, and what is allowed; the command line
prints it without a traceback and leaves with ``exit_code``. Anything else that escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from rag_assets.plain_text import one_line


class RagAssetsError(Exception):
    """Base of all expected failures; ``str(error)`` is one line for people."""

    exit_code = 1

    def __str__(self) -> str:
        """Return the line; names from files and answers of servers are data in it."""
        return one_line(super().__str__())


class UsageError(RagAssetsError):
    """The command or the Python call asks for something that cannot be."""

    exit_code = 2


class _Located(RagAssetsError):
    """A failure at a place: ``file:line: `key`: problem``, as much of it as is known."""

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(_located(problem, file, line, key))


class NotEstimable(UsageError):
    """A sample of labels does not give this number; the message says what does."""


class ConfigError(_Located, UsageError):
    """An ``experiment.yaml`` is not valid."""


class DataError(_Located):
    """Documents, queries, qrels or a run file break their format or contradict each other."""


class SchemaMismatch(DataError):
    """A table lacks a column of its contract, or a column has another type."""


class ModelUnavailable(RagAssetsError):
    """A model's files are neither installed, nor on disk, nor at the hub."""


class ComputeUnavailable(RagAssetsError):
    """The cluster that is to compute cannot be reached, or lost more workers than it may."""


class NotServed(ModelUnavailable):
    """A server did not serve, in spite of retries; what it answered is kept, so ask again later."""

    exit_code = 3


class Incomplete(RagAssetsError):
    """An evaluation ended, and a retriever failed on queries of it."""

    exit_code = 3


class MissingArtifact(RagAssetsError):
    """An upstream partition is not in the store in the version that the inputs now ask for."""


class NotEvaluated(RagAssetsError):
    """The experiment has no evaluation in this store yet."""


class StoreError(RagAssetsError):
    """The store cannot be read or written as asked."""

    exit_code = 3


def allowed_names(found: str, allowed: Iterable[str]) -> str:
    """Return ``'found' (did you mean 'x'?); allowed: a, b`` for an unknown name."""
    names = list(allowed)
    near = get_close_matches(found, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return f"'{found}'{hint}; allowed: {', '.join(names) or 'nothing'}"


def _located(problem: str, file: Path | str | None, line: int | None, key: str | None) -> str:
    place = str(file) if file is not None else ""
    if line is not None:
        place += f":{line}"
    parts = [place, f"`{key}`" if key else "", " ".join(problem.split())]
    return ": ".join(part for part in parts if part)
