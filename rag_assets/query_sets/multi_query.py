"""The query set ``multi_query``: n paraphrases of each query, each searched on its own.

Fused by reciprocal rank fusion this is RAG-Fusion (Rackauckas, "RAG-Fusion: a New Take on
Retrieval-Augmented Generation", 2024).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from rag_assets.errors import UsageError
from rag_assets.query_sets.model_output import parsed_list
from rag_assets.query_sets.prompted import (
    SAME_LANGUAGE,
    Count,
    PromptedQuerySet,
    Sampling,
    Strategy,
    load_template,
)

TEMPLATE = "multi_query"


class MultiQuerySet(PromptedQuerySet):
    """``n`` paraphrases of each query: RAG-Fusion when their rankings are fused by ``rrf``."""

    reads_list: ClassVar[bool] = True

    strategy: Literal["multi_query"]
    n: Count = 4

    def prompted(self) -> Strategy:
        """Ask for n paraphrases."""
        return paraphrasing(
            self.n, language=self.language, sampling=self.sampling(), template=self.template
        )


def paraphrasing(
    n: int = 4,
    *,
    language: str = SAME_LANGUAGE,
    sampling: Sampling | None = None,
    template: Path | None = None,
) -> Strategy:
    """Return the strategy that makes at most ``n`` variants a query, from one answer.

    Args:
        n: how many paraphrases are asked for.
        language: of the variants, as the prompt says it.
        sampling: how answers are drawn.
        template: another prompt, with ``{query}`` and if wanted ``{n}`` and ``{language}``.

    Raises:
        ConfigError: the file is no such prompt.
        UsageError: ``n`` is below 1.
    """
    if n < 1:
        raise UsageError(f"multi_query n is {n}; it must be 1 or more")
    prompt = load_template(TEMPLATE, template, ["n", "language"])
    values = {"n": n, "language": language}
    return Strategy(prompt, partial(parsed_list, at_most=n), values, sampling or Sampling())
