"""The query set ``llm_rewrite``: each query said once more, clear and complete."""

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

TEMPLATE = "rewrite"


class RewriteQuerySet(PromptedQuerySet):
    """Each query said once more, clear and complete."""

    strategy: Literal["rewrite"]

    def prompted(self) -> Strategy:
        """Ask for one rewriting."""
        return rewriting(language=self.language, sampling=self.sampling(), template=self.template)


def rewriting(
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
