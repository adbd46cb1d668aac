"""``questions`` in an ``experiment.yaml``: of which chunks, by whom, and which are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from rag_assets.errors import DataError, allowed_names
from rag_assets.evaluation.query_filters import FilteredDocuments, filter_values
from rag_assets.labels.generation.question_filters import Filters
from rag_assets.labels.generation.question_generation import (
    SAME_LANGUAGE,
    Generator,
    Spread,
    chunks_to_ask,
    question_template,
)
from rag_assets.options import FileOptions, Number
from rag_assets.query_sets.query_set import Sampling

Count = Annotated[int, Field(ge=1, strict=True)]
_DEFAULT = Filters()


def _checked_filter(given: dict[str, Any]) -> dict[str, Any]:
    filter_values(given)
    return given


class QuestionOptions(FileOptions):
    """Questions that a language model writes from chunks, each with the span of its chunk as label.

    They take the place of the dataset's queries and labels. ``chunking`` says whose chunks, where
    there are several; ``llm`` names one of ``llms``, without it it is the experiment's ``llm``.
    A chunk is asked about where its text has ``min_characters`` to ``max_characters``, and its
    document what ``filter`` says, as a query's filter does. Of these at most ``chunks`` are drawn,
    by hashes of their ids and ``seed``. With ``spread: document`` every document, with ``heading``
    every heading of a document, has one chunk drawn before any has two. ``n`` questions are asked
    for of each chunk. ``language`` is said to the model as it stands; ``template`` is a prompt file
    in place of ours. Questions are dropped by ``min_words``, ``max_copied`` and ``near_duplicate``
    as by ``rag-assets generate``. ``reviewed`` is a sheet of that command: what has ``no`` on it is
    left out, and what has ``yes`` is worded as there.
    """

    file_options: ClassVar[tuple[str, ...]] = ("template", "reviewed")

    chunking: str | None = None
    llm: str | None = None
    n: Count = 2
    chunks: Count | None = None
    spread: Spread | None = None
    filter: Annotated[dict[str, Any], AfterValidator(_checked_filter)] = Field(default_factory=dict)
    min_characters: Count = 1
    max_characters: Count | None = None
    language: str = SAME_LANGUAGE
    template: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    max_tokens: Count = 512
    min_words: Count = _DEFAULT.min_words
    max_copied: Annotated[Number, Field(ge=0, le=1)] = _DEFAULT.max_copied
    near_duplicate: Annotated[Number, Field(gt=0, le=1)] = _DEFAULT.near_duplicate
    reviewed: Path | None = None

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

    def question_generator(self) -> Generator:
        """Return how questions are asked for.

        Raises:
            ConfigError: the template is none.
        """
        filters = Filters(self.min_words, self.max_copied, near_duplicate=self.near_duplicate)
        sampling = Sampling(self.temperature, self.seed, self.max_tokens)
        return Generator(question_template(self.template), self.n, self.language, sampling, filters)

    def chosen_chunks(self, chunks: pa.Table, documents: pa.Table | None) -> pa.Table:
        """Return the chunks that are asked about, in their order.

        Args:
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            documents: table of :data:`rag_assets.schemas.DOCUMENTS`; None without a filter.

        Raises:
            DataError: no document has a field of the filter.
        """
        most = self.max_characters or float("inf")
        sizes = (len(text.strip()) for text in chunks.column("text").to_pylist())
        mask = [self.min_characters <= size <= most for size in sizes]
        if documents is not None:
            allowed = self._allowed_documents(documents)
            ids = chunks.column("document_id").to_pylist()
            mask = [fits and one in allowed for fits, one in zip(mask, ids, strict=True)]
        own = chunks.filter(pa.array(mask, pa.bool_()))
        return chunks_to_ask(own, self.chunks, self.seed, self.spread)

    def _allowed_documents(self, documents: pa.Table) -> set[str]:
        fields = filter_values(self.filter)
        by_metadata = FilteredDocuments(documents, fields)
        for name in fields:
            if name not in by_metadata.names:
                known = allowed_names(name, sorted(by_metadata.names))
                raise DataError(f"no document has the field {known}", key="questions.filter")
        return set(by_metadata.of(fields))
