"""What a retriever is given besides its options and its data: caches, and ways to show progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rag_assets.progress import Progress, no_progress


@dataclass(frozen=True)
class Workspace:
    """The surroundings of one retriever while it indexes, encodes, searches or reranks.

    Attributes:
        cache: folder of all content caches; each kind has a folder of its own in it. None
            remembers nothing.
        progress: ``progress(label, total)`` opens a progress bar.
    """

    cache: Path | None = None
    progress: Progress = no_progress

    def cache_of(self, kind: str) -> Path | None:
        """Return the folder of one kind of cached things, such as ``embeddings``."""
        return self.cache / kind if self.cache is not None else None
