"""``type: file``: answers that stand in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from rag_assets.answers.generators.base import Generator, GeneratorAnswer, Question, Tools


class FileGenerator(Generator):
    """Answers from elsewhere, read from ``path`` (relative to the YAML file).

    A file is JSON as SQuAD's predictions, ``{id: answer}``, or by its name JSON lines (``.jsonl``)
    with ``query_id``, ``answer`` and, if known, ``cited`` and ``error``. A question without an
    answer in it failed.
    """

    reads_context: ClassVar[bool] = False
    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["file"]
    path: Path

    def answer(self, questions: Sequence[Question], tools: Tools) -> list[GeneratorAnswer]:
        raise NotImplementedError
