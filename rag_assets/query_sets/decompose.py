"""The query set ``decompose``: the simple questions that a complex one is made of.

Khot et al., "Decomposed Prompting: A Modular Approach for Solving Complex Tasks", ICLR 2023, for
retrieval. A query that is simple comes back as itself and keeps its original alone.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

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

TEMPLATE = "decompose"


class DecomposeQuerySet(PromptedQuerySet):
    """At most ``n`` simple questions that a complex query is made of."""

    strategy: Literal["decompose"]
    n: Count = 4

    def prompted(self) -> Strategy:
        """Ask for sub-questions."""
        return decomposing(
            self.n, language=self.language, sampling=self.sampling(), template=self.template
        )


def decomposing(
    n: int = 4,
    *,
    language: str = SAME_LANGUAGE,
    sampling: Sampling | None = None,
    template: Path | None = None,
) -> Strategy:
    """Return the strategy that makes at most ``n`` sub-questions a query.

    Args:
        n: most sub-questions.
        language: of the variants, as the prompt says it.
        sampling: how answers are drawn.
        template: another prompt, with ``{query}`` and if wanted ``{n}`` and ``{language}``.

    Raises:
        ConfigError: the file is no such prompt.
        UsageError: ``n`` is below 1.
    """
    if n < 1:
        raise UsageError(f"decompose n is {n}; it must be 1 or more")
    prompt = load_template(TEMPLATE, template, ["n", "language"])
    values = {"n": n, "language": language}
    return Strategy(prompt, partial(parsed_list, at_most=n), values, sampling or Sampling())
