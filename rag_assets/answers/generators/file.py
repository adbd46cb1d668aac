"""``type: file``: answers that stand in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from rag_assets.answers.generators.base import (
    Generator,
    GeneratorAnswer,
    GeneratorAnswers,
    Question,
    Tools,
)
from rag_assets.answers.prediction_files import read_predictions


class FileGenerator(Generator):
    """Answers from elsewhere, read from ``path`` (relative to the YAML file).

    A file is JSON as SQuAD's predictions, ``{id: answer}``, or by its name JSON lines (``.jsonl``)
    with ``query_id``, ``answer`` and, if known, ``cited``, ``na_prob``, ``abstained`` or ``error``.
    A question without an answer in it failed.
    """

    reads_context: ClassVar[bool] = False
    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["file"]
    path: Path

    def answer(self, questions: Sequence[Question], tools: Tools) -> GeneratorAnswers:
        """Read the file."""
        found = read_predictions(self.path, [question.query_id for question in questions])
        by_query = {row["query_id"]: row for row in found.answers.to_pylist()}
        answers = [_answer(by_query[question.query_id]) for question in questions]
        return GeneratorAnswers(answers, found.notes())


def _answer(row: dict[str, object]) -> GeneratorAnswer:
    text, cited = row["answer"], row["cited"]
    return GeneratorAnswer(
        text if isinstance(text, str) else None,
        bool(row["abstained"]) if row["abstained"] is not None else None,
        tuple(cited) if isinstance(cited, list) else None,
        score=row["score"] if isinstance(row["score"], float) else None,
        error=str(row["error"]) if row["error"] is not None else None,
    )
