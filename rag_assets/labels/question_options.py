"""``questions`` in an ``experiment.yaml``: of which chunks, by whom, and which are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.llm.client import Template, packaged_template, read_template
from rag_assets.options import FileOptions, Number
from rag_assets.store.canonical import permanent_hash

SAME_LANGUAGE = "the language of the text"
_PLACES = ("n", "language", "title")

Spread = Literal["document", "heading"]
_GROUPS = {"document": ("document_id",), "heading": ("document_id", "heading_path")}

Count = Annotated[int, Field(ge=1, strict=True)]


class QuestionOptions(FileOptions):
    """Questions that a language model writes from chunks, each with the span of its chunk as label.

    They take the place of the dataset's queries and labels. ``chunking`` says whose chunks, where
    there are several; ``llm`` names one of ``llms``, without it it is the experiment's ``llm``.
    A chunk is asked about where its text has ``min_characters`` to ``max_characters``. Of these at
    most ``chunks`` are drawn, by hashes of their ids and ``seed``. With ``spread: document`` every
    document, with ``heading`` every heading of a document, has one chunk drawn before any has two.
    ``n`` questions are asked for of each chunk. ``language`` is said to the model as it stands;
    ``template`` is a prompt file in place of ours. Questions are dropped by ``min_words``,
    ``max_copied`` and ``near_duplicate``. ``rag-assets generate`` asks the same.
    """

    file_options: ClassVar[tuple[str, ...]] = ("template",)

    chunking: str | None = None
    llm: str | None = None
    n: Count = 2
    chunks: Count | None = None
    spread: Spread | None = None
    min_characters: Count = 1
    max_characters: Count | None = None
    language: str = SAME_LANGUAGE
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    max_tokens: Count = 512
    min_words: Count = 4
    max_copied: Annotated[Number, Field(ge=0, le=1)] = 0.8
    near_duplicate: Annotated[Number, Field(gt=0, le=1)] = 0.8

    @model_validator(mode="after")
    def _some_length(self) -> Self:
        if self.max_characters is not None and self.max_characters < self.min_characters:
            problem = f"must be at least min_characters, {self.min_characters}"
            raise ValueError(f"max_characters {self.max_characters} {problem}")
        if self.spread is not None and self.chunks is None:
            raise ValueError("spread says which `chunks` are drawn; say how many")
        return self

    def recipe_options(self) -> Mapping[str, Any]:
        """Return the options that determine the questions: no names of models or chunkings."""
        return self.model_dump(mode="json", exclude={*self.file_options, "llm", "chunking"})

    def question_prompt(self) -> Template:
        """Return the packaged prompt, or the one of the file."""
        if self.template is None:
            return packaged_template("questions", ["text"], _PLACES)
        return read_template(self.template, ["text"], _PLACES)

    def chosen_chunks(self, chunks: pa.Table) -> pa.Table:
        """Return the chunks that are asked about, in their order; blank ones are not among them.

        The draw goes by the ids' hashes, so a chunk more or less changes at most one of those
        drawn.
        """
        longest = self.max_characters or float("inf")
        rows = [
            row
            for row, text in enumerate(chunks.column("text").to_pylist())
            if self.min_characters <= len(text.strip()) <= longest
        ]
        if self.chunks is not None and self.chunks < len(rows):
            rows = sorted(self._drawn(chunks, rows)[: self.chunks])
        return chunks.take(pa.array(rows, pa.int64()))

    def _drawn(self, chunks: pa.Table, rows: Sequence[int]) -> Sequence[int]:
        """Return rows in the order in which they are drawn."""
        ids = chunks.column("chunk_id").to_pylist()
        by_hash = sorted(rows, key=lambda row: permanent_hash(self.seed, ids[row]))
        if self.spread is None:
            return by_hash
        columns = [chunks.column(name).to_pylist() for name in _GROUPS[self.spread]]
        n_before: Counter[tuple[str, ...]] = Counter()
        places: dict[int, tuple[int, bytes]] = {}
        for row in by_hash:
            group = tuple(column[row] for column in columns)
            places[row] = n_before[group], permanent_hash(self.seed, *group)
            n_before[group] += 1
        return sorted(by_hash, key=lambda row: places[row])
