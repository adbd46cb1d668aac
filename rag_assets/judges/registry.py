"""All judge types."""

from __future__ import annotations

from rag_assets.judges.base import Judge
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.recorded import RecordedJudge
from rag_assets.judges.words import WordsJudge

JUDGE_TYPES: dict[str, type[Judge]] = {
    "llm": LlmJudge,
    "recorded": RecordedJudge,
    "words": WordsJudge,
}
