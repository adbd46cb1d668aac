"""Strategy ``parent``: small chunks are searched, the larger ones that they lie in are returned.

A document is cut into parents, and each parent into children, so that every child lies inside one
parent. The chunks are the children. That a hit gives its parent, once, at the place of its best
child, is the work of :func:`rag_assets.retrieval.unit_ranking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import model_validator

from rag_assets.chunking.chunker import (
    CHILD_CHUNKING_TYPES,
    PARENT_CHUNKING_TYPES,
    Chunker,
    Cutter,
    EmbedBy,
    Piece,
    Span,
    split_pieces,
)
from rag_assets.code_versions.closure import Root
from rag_assets.options import LazyTaggedUnion


class ParentChunking(Chunker):
    """Search small chunks, return the larger ones that contain them.

    A document is cut by ``parent``, and each parent by ``child``. The children are indexed; a run
    holds parents, each once, at the rank of its best child, and top_k counts parents.
    """

    has_parents: ClassVar[bool] = True

    strategy: Literal["parent"]
    child: Annotated[Chunker, LazyTaggedUnion(CHILD_CHUNKING_TYPES, "strategy")]
    parent: Annotated[Chunker, LazyTaggedUnion(PARENT_CHUNKING_TYPES, "strategy")]

    @model_validator(mode="after")
    def _parts_are_not_searched(self) -> Self:
        if any(part.index_texts is not None for part in (self.child, self.parent)):
            raise ValueError("put index_texts next to child and parent: they apply to the children")
        return self

    @property
    def by_blocks(self) -> bool:
        return self.child.by_blocks and self.parent.by_blocks

    @property
    def whole_parents(self) -> bool:
        return self.parent.whole_documents

    def cutting(self) -> Mapping[str, Any]:
        parts = {"child": self.child.cutting(), "parent": self.parent.cutting()}
        return {"strategy": self.strategy, **parts}

    def code_roots(self) -> list[Root]:
        roots = [*super().code_roots(), *self.child.code_roots(), *self.parent.code_roots()]
        return list(dict.fromkeys(roots))

    def versions(self) -> Mapping[str, str]:
        """Return those of the two, each with its part before its name."""
        parts = {"child": self.child.versions(), "parent": self.parent.versions()}
        return {f"{part}.{name}": v for part, of in parts.items() for name, v in of.items()}

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts texts into the children of all parents.

        Where parents overlap, a child that lies in two of them belongs to the first.
        """
        child, parent = self.child.cutter(embed_by), self.parent.cutter(embed_by)

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            parents = [list(of_text) for of_text in parent(texts)]
            children = split_pieces(texts, parents, child, as_parents=True)
            for of_text, pieces in zip(parents, children, strict=True):
                first_of_span: dict[Span, Piece] = {}
                for piece in pieces:
                    first_of_span.setdefault((piece.start, piece.end), piece)
                # The only chunk of a blank text has a parent too, so that its id is of a kind.
                start, end = (of_text[0].start, of_text[0].end) if of_text else (0, 0)
                yield list(first_of_span.values()) or [Piece(start, start, (), (start, end))]

        return cut
