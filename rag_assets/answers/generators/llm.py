"""``type: llm``: a language model reads the context and writes the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assets.answers.generators.base import Generator, GeneratorAnswer, Question, Tools
from rag_assets.options import Number


class LlmGenerator(Generator):
    """An answer that a language model writes.

    ``llm`` names one of the experiment's ``llms``, and ``model`` takes the place of the model that
    stands there. ``prompt`` is a prompt file in place of ours, with places for ``question`` and
    ``context``. ``window`` is how many tokens the model reads and writes in all: what is longer is
    sent all the same, and counted, since some servers cut it without a word.
    """

    asks_model: ClassVar[bool] = True
    file_options: ClassVar[tuple[str, ...]] = ("prompt",)

    type: Literal["llm"]
    llm: str | None = None
    model: Annotated[str, Field(min_length=1)] | None = None
    prompt: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Annotated[int, Field(ge=1, strict=True)] = 128
    window: Annotated[int, Field(ge=1, strict=True)] | None = None

    def answer(self, questions: Sequence[Question], tools: Tools) -> list[GeneratorAnswer]:
        raise NotImplementedError
