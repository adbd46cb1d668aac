"""``type: words``: no model at all, how many words two texts have in common; and all types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from rag_assets.answers.answer_text import words
from rag_assets.answers.metrics import token_f1
from rag_assets.judges.base import (
    HIGHEST,
    RELEVANCE,
    Item,
    Judge,
    SearchSession,
    Verdict,
)
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.recorded import RecordedJudge
from rag_assets.options import Number


class WordsJudge(Judge):
    """Word overlap, for tests and as the floor that a real judge must pass.

    The grade of a passage is which quarter of the question's different words it holds: 0 for less
    than one quarter, 3 for three or more. An answer is right from ``right`` on, the best F1 of its
    words and those of a right one. It sees no meaning: a negation, or another number, is one word
    among many. ``language`` says how texts become words: ``cjk`` takes characters.
    """

    type: Literal["words"]
    language: Literal["standard", "cjk"] = "standard"
    right: Annotated[Number, Field(gt=0, le=1)] = 0.5

    def verdicts(self, items: Sequence[Item], tools: SearchSession) -> Iterator[Verdict]:
        """Count the words of each item."""
        for item in items:
            question, text, *golds = (words(one, self.language) for one in item.texts)
            if golds:
                yield Verdict(int(max(token_f1(gold, text) for gold in golds) >= self.right))
            else:
                shared = len(set(question) & set(text))
                quarters = 4 * shared // len(set(question)) if question else 0
                yield Verdict(min(quarters, HIGHEST[RELEVANCE]))


JUDGE_TYPES: dict[str, type[Judge]] = {
    "llm": LlmJudge,
    "recorded": RecordedJudge,
    "words": WordsJudge,
}
"""All judge types, by their names."""
