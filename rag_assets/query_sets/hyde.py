"""The query set ``hyde``: passages that might answer each query, searched in its place.

Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023. There the
vectors of the passages and of the query are averaged; here each is searched, and the fusion over
the variants joins them (``sum`` of inner products ranks as their average does, where every ranking
holds every document).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rag_assets.query_sets.model_output import parsed_passage
from rag_assets.query_sets.prompted import (
    SAME_LANGUAGE,
    Count,
    PromptedQuerySet,
    Sampling,
    Strategy,
    load_template,
)

TEMPLATE = "hyde"


class HydeQuerySet(PromptedQuerySet):
    """HyDE: a passage that would answer the query; ``samples`` of them."""

    strategy: Literal["hyde"]
    samples: Count = 1

    def prompted(self) -> Strategy:
        """Ask for a passage."""
        return hypothetical_documents(
            self.samples, language=self.language, sampling=self.sampling(), template=self.template
        )


def hypothetical_documents(
    samples: int = 1,
    *,
    language: str = SAME_LANGUAGE,
    sampling: Sampling | None = None,
    template: Path | None = None,
) -> Strategy:
    """Return the strategy that makes a passage from each of ``samples`` answers.

    Args:
        samples: passages a query; more than one needs a temperature above 0.
        language: of the passages, as the prompt says it.
        sampling: how answers are drawn; each sample has a seed of its own.
        template: another prompt, with ``{query}`` and if wanted ``{language}``.

    Raises:
        ConfigError: the file is no such prompt.
        UsageError: the samples would all be equal, or there are none.
    """
    prompt = load_template(TEMPLATE, template, ["language"])
    drawn = sampling or Sampling()
    return Strategy(prompt, parsed_passage, {"language": language}, drawn, samples)
