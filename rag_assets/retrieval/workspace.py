"""What a retriever is given besides its options and its data: caches, progress and measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.models.known_prompts import Prompts, prompts_of, served_prompts
from rag_assets.progress import Progress, no_progress

Vectors = TypeVar("Vectors")


@dataclass(frozen=True)
class Usage:
    """What it took to make ``amount`` units (texts, requests) of an artifact.

    Attributes:
        what: ``embed`` or ``ask``, see :mod:`rag_assets.engine.measurements`.
        amount: how many.
        seconds: of wall time.
        cached: they were known beforehand and took no time of their own.
        tokens: as an API counted them; None where none told.
        cost: money for them, in the unit of the prices; None without prices.
    """

    what: str
    amount: int
    seconds: float | None = None
    cached: bool = False
    tokens: int | None = None
    cost: float | None = None


Measure = Callable[[Usage], None]
"""Keeps a measurement."""


def unmeasured(_: Usage) -> None:
    """Keep nothing."""


def total_usage(usages: Sequence[Usage], *, cached: bool) -> Usage:
    """Return the sums over what was new, or over what was known; None where none was counted."""
    chosen = [usage for usage in usages if usage.cached is cached]
    tokens = [usage.tokens for usage in chosen if usage.tokens is not None]
    costs = [usage.cost for usage in chosen if usage.cost is not None]
    return Usage(
        "embed",
        sum(usage.amount for usage in chosen),
        sum(usage.seconds or 0.0 for usage in chosen),
        tokens=sum(tokens) if tokens else None,
        cost=sum(costs) if costs else None,
        cached=cached,
    )


@dataclass(frozen=True)
class Workspace:
    """The surroundings of one retriever while it indexes, encodes, searches or reranks.

    Attributes:
        cache: folder of all content caches; each kind has a folder of its own in it. None
            remembers nothing.
        progress: ``progress(label, total)`` opens a progress bar.
        measure: keeps what something took.
        compute: where models are run.
        earlier: the folder of an index that the same code made with the same options of another, or
            the same, corpus.
    """

    cache: Path | None = None
    progress: Progress = no_progress
    measure: Measure = unmeasured
    compute: Compute = LOCAL
    earlier: Path | None = None

    def cache_of(self, kind: str) -> Path | None:
        """Return the folder of one kind of cached things, such as ``embeddings``."""
        return self.cache / kind if self.cache is not None else None

    def encoder_options(self, options: Any, cache: str) -> dict[str, Any]:  # noqa: ANN401
        """Return the arguments of an encoder by a local model; ``cache`` keeps its vectors."""
        given = (getattr(options, name, None) for name in ("query_prompt", "document_prompt"))
        prompts = prompts_of(options.model, *given)
        return {
            "model": options.model,
            "query_prompt": prompts.for_encoder("query"),
            "document_prompt": prompts.for_encoder("document"),
            "cache": self.cache_of(cache),
            "compute": self.compute,
        }


def retriever_prompts(options: object, *, served: bool = False) -> Prompts | None:
    """Return the prompts of a retriever; None of one without a model that takes prompts."""
    model = getattr(options, "model", None)
    if not isinstance(model, str) or not hasattr(options, "query_prompt"):
        return None
    given = options.query_prompt, getattr(options, "document_prompt", None)
    if served:
        return served_prompts(model, given[0] or "", given[1] or "")
    return prompts_of(model, *given)


NO_WORKSPACE = Workspace()
"""No surroundings: nothing is remembered or shown, and models are run in this process."""


def measured(
    encode: Callable[[Callable[[int, int], None]], Vectors],
    texts: Sequence[str],
    kind: Literal["query", "document"],
    workspace: Workspace,
) -> Vectors:
    """Return what ``encode`` gives, and keep how many texts were new and what they took."""
    n_new = 0
    label = "embed queries" if kind == "query" else "embed chunks"
    with workspace.progress(label, len(texts)) as advance:

        def count(done: int, total: int) -> None:
            nonlocal n_new
            n_new = total
            advance(done, total)

        started = time.perf_counter()
        vectors = encode(count)
        seconds = time.perf_counter() - started
    workspace.measure(Usage("embed", n_new, seconds))
    workspace.measure(Usage("embed", len(set(texts)) - n_new, cached=True))
    return vectors
