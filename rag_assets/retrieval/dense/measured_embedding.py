"""What embedding texts takes: shown while it lasts, and kept as a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from rag_assets.models.encoder import Kind, Progress
from rag_assets.retrieval.workspace import Usage, Workspace

Vectors = TypeVar("Vectors")


def measured(
    encode: Callable[[Progress], Vectors], texts: Sequence[str], kind: Kind, workspace: Workspace
) -> Vectors:
    """Return what ``encode`` gives, and keep how many texts were new and what they took.

    Args:
        encode: embeds ``texts``; calls what it is given with (texts encoded, texts to encode), and
            not at all when none is new. Loading a model counts.
        texts: may repeat.
        kind: what the texts are.
        workspace: shows the progress and keeps the measurement.
    """
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
