"""``type: extractive``: a span of the context, by a linear reader that is trained here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from rag_assets.answers.generators.base import (
    Generator,
    GeneratorAnswer,
    GeneratorAnswers,
    Question,
    Tools,
)

if TYPE_CHECKING:
    from rag_assets.answers.span_reader import SpanAnswer

READER = "reader.npz"
"""File of a trained reader."""


class ExtractiveGenerator(Generator):
    """An answer copied from the context; offline, deterministic, without foreign weights.

    The reader is trained on the spans of ``train``, a file in SQuAD's layout, or without one on
    the answers of the experiment's dev split. Where there is none of either, the answer is the
    sentence of the context that shares most with the question.
    """

    file_options: ClassVar[tuple[str, ...]] = ("train",)

    type: Literal["extractive"]
    train: Path | None = None

    def answer(self, questions: Sequence[Question], tools: Tools) -> GeneratorAnswers:
        """Copy the best span, or the best sentence where nothing was learned."""
        from rag_assets.answers.span_reader import SpanReader, best_sentence

        if tools.reader is None:
            found = [best_sentence(one.text, one.context) for one in questions]
        else:
            reader = SpanReader.load(tools.reader / READER)
            texts = [question.text for question in questions]
            found = reader.answers(texts, [question.context for question in questions])
        return GeneratorAnswers([_answer(one) for one in found])


def _answer(found: SpanAnswer) -> GeneratorAnswer:
    if found.passage < 0:
        return GeneratorAnswer("", spans=())
    return GeneratorAnswer(found.text, spans=((found.passage + 1, found.start, found.end),))
