"""``type: extractive``: a span of the context, by a linear reader that is trained here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from rag_assets.answers.generators.base import Generator, GeneratorAnswer, Question, Tools


class ExtractiveGenerator(Generator):
    """An answer copied from the context; offline, deterministic, without foreign weights.

    The reader is trained on the spans of ``train``, a file in SQuAD's layout, or without one on
    the evidence of the experiment's dev split. Where there is none of either, the answer is the
    sentence of the context that is most like the question.
    """

    file_options: ClassVar[tuple[str, ...]] = ("train",)

    type: Literal["extractive"]
    train: Path | None = None

    def answer(self, questions: Sequence[Question], tools: Tools) -> list[GeneratorAnswer]:
        raise NotImplementedError
