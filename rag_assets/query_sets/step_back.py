"""The query set ``step_back``: the more general question behind each query.

Zheng et al., "Take a Step Back: Evoking Reasoning via Abstraction in Large Language Models", ICLR
2024.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rag_assets.query_sets.model_output import parsed_line
from rag_assets.query_sets.prompted import (
    SAME_LANGUAGE,
    PromptedQuerySet,
    Sampling,
    Strategy,
    load_template,
)

TEMPLATE = "step_back"


class StepBackQuerySet(PromptedQuerySet):
    """A more general question behind each query."""

    strategy: Literal["step_back"]

    def prompted(self) -> Strategy:
        """Ask for the general question."""
        return stepping_back(
            language=self.language, sampling=self.sampling(), template=self.template
        )


def stepping_back(
    *,
    language: str = SAME_LANGUAGE,
    sampling: Sampling | None = None,
    template: Path | None = None,
) -> Strategy:
    """Return the strategy that makes one variant a query.

    Args:
        language: of the variant, as the prompt says it.
        sampling: how answers are drawn.
        template: another prompt, with ``{query}`` and if wanted ``{language}``.

    Raises:
        ConfigError: the file is no such prompt.
    """
    prompt = load_template(TEMPLATE, template, ["language"])
    return Strategy(prompt, parsed_line, {"language": language}, sampling or Sampling())
