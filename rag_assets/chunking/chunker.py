"""What a chunking strategy is: its options, and how they become a function that cuts.

A strategy is a class in one file. One of ours has a line in :mod:`rag_assets.chunking.registry`,
one of another package an entry point of the group ``rag_assets.chunkers``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from rag_assets.chunking.index_texts import IndexTexts
from rag_assets.chunking.pieces import Cutter
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.models.unit_vectors import Vectors
from rag_assets.options import Options
from rag_assets.package_versions import version

Embed = Callable[[Sequence[str]], Vectors]
"""Gives for each text, at least one, a vector of length 1: float32, shape (texts, dimension)."""

EmbedBy = Callable[[str], Embed]
"""``embed_by(model)`` gives what embeds texts by that model."""


WITH_HEADINGS = "title+heading+text"


class Chunker(Options, ABC):
    """Options of one chunking strategy.

    Where it has an option ``indexed`` whose value is :data:`WITH_HEADINGS`, the heading path of a
    chunk is indexed between title and text. With ``index_texts`` a chunk is found by several texts.

    Attributes:
        libraries: packages whose versions determine the chunks.
        whole_documents: every document is one chunk, and keeps its id.
        has_parents: every piece has a parent, which is returned in its place.
    """

    libraries: ClassVar[tuple[str, ...]] = ()
    whole_documents: ClassVar[bool] = False
    has_parents: ClassVar[bool] = False

    strategy: str
    # Says how chunks are found, not how documents are cut: no part of what is dumped.
    index_texts: IndexTexts | None = Field(default=None, exclude=True)

    @abstractmethod
    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return the function that cuts as the options say.

        Args:
            embed_by: gives the vectors of a model, for strategies that need some.
        """

    @property
    def by_blocks(self) -> bool:
        """Whether a document is cut the same whatever else is cut with it.

        An edit of one document then cuts its block only.
        """
        return True

    @property
    def whole_parents(self) -> bool:
        """Whether the parents are whole documents, and have their ids."""
        return False

    def cutting(self) -> Mapping[str, Any]:
        """Return the options that say how to cut, without what is indexed of a chunk."""
        return self.model_dump(mode="json", exclude={"indexed"})

    def code_roots(self) -> list[Root]:
        """Return the roots of the code that cuts."""
        return [root_of(type(self))]

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries, the tokenizer and the model that cut.

        Raises:
            ModelUnavailable: the tokenizer or the model cannot be had.
        """
        return {name: version(name) for name in self.libraries}


def _less_than_a_chunk(overlap: int, info: ValidationInfo) -> int:
    for key in ("max_characters", "max_tokens", "sentences"):
        size = info.data.get(key)
        if size is not None and overlap >= size:
            raise ValueError(f"overlap {overlap} must be less than {key} {size}")
    return overlap


Overlap = Annotated[
    int, Field(ge=0, strict=True, validate_default=True), AfterValidator(_less_than_a_chunk)
]
"""How much a chunk repeats of the one before; less than its size."""
