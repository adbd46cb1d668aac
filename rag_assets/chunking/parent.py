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
    EmbedBy,
)
from rag_assets.chunking.pieces import Cutter, Piece, Span
from rag_assets.code_versions.closure import Root
from rag_assets.options import LazyTaggedUnion


class ParentChunking(Chunker):
    """Search small chunks, return the larger ones that they lie in.

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
            raise ValueError("index_texts belongs beside child and parent: they are the children's")
        return self

    @property
    def by_blocks(self) -> bool:
        """Whether both are."""
        return self.child.by_blocks and self.parent.by_blocks

    @property
    def whole_parents(self) -> bool:
        """Whether each document is one parent."""
        return self.parent.whole_documents

    def cutting(self) -> Mapping[str, Any]:
        """Return how the two cut."""
        parts = {"child": self.child.cutting(), "parent": self.parent.cutting()}
        return {"strategy": self.strategy, **parts}

    def code_roots(self) -> list[Root]:
        """Return those of the three."""
        roots = [*super().code_roots(), *self.child.code_roots(), *self.parent.code_roots()]
        return list(dict.fromkeys(roots))

    def versions(self) -> Mapping[str, str]:
        """Return those of the two, each with its part before its name."""
        parts = {"child": self.child.versions(), "parent": self.parent.versions()}
        return {f"{part}.{name}": v for part, of in parts.items() for name, v in of.items()}

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts twice."""
        return cutter(self.child.cutter(embed_by), self.parent.cutter(embed_by))


def cutter(child: Cutter, parent: Cutter) -> Cutter:
    """Return what cuts texts into the children of all parents.

    Where parents overlap, a child that lies in two of them belongs to the first. The headings of
    a child are those of its parent and, below them, its own.
    """

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        parents = [list(of_text) for of_text in parent(texts)]
        slices = [
            text[piece.start : piece.end]
            for text, of_text in zip(texts, parents, strict=True)
            for piece in of_text
        ]
        children = iter(child(slices))
        for of_text in parents:
            first_of_span: dict[Span, Piece] = {}
            for outer in of_text:
                for piece in next(children):
                    start, end = outer.start + piece.start, outer.start + piece.end
                    headings = joined(outer.headings, piece.headings)
                    child_piece = Piece(start, end, headings, (outer.start, outer.end))
                    first_of_span.setdefault((start, end), child_piece)
            # The only chunk of a blank text has a parent too, so that its id is of a kind.
            start, end = (of_text[0].start, of_text[0].end) if of_text else (0, 0)
            yield list(first_of_span.values()) or [Piece(start, start, (), (start, end))]

    return cut


def joined(above: tuple[str, ...], below: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings above a slice and then those in it; a common part is named once.

    A slice that begins with the heading of its section names that heading again.
    """
    common = min(len(above), len(below))
    while above[len(above) - common :] != below[:common]:
        common -= 1
    return above + below[common:]
