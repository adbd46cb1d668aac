"""Strategy ``parent``: small chunks are searched, the larger ones that they lie in are returned.

A document is cut into parents, and each parent into children, so that every child lies inside one
parent. The chunks are the children. That a hit gives its parent, once, at the place of its best
child, is the work of :func:`rag_assets.evaluation.units.unit_ranking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_assets.chunking.pieces import Cutter, Piece


def cutter(child: Cutter, parent: Cutter) -> Cutter:
    """Return what cuts texts into the children of all parents.

    Where parents overlap, a child that lies in two of them belongs to the first. The headings of
    a child are those of its parent and, below them, its own.
    """

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        parents = [list(found) for found in parent(texts)]
        slices = [
            text[piece.start : piece.end]
            for text, found in zip(texts, parents, strict=True)
            for piece in found
        ]
        children = iter(child(slices))
        for found in parents:
            inside = [_inside(piece, outer) for outer in found for piece in next(children)]
            yield _first_of_each_span(inside) or [_empty(found)]

    return cut


def _inside(piece: Piece, outer: Piece) -> Piece:
    start, end = outer.start + piece.start, outer.start + piece.end
    headings = joined(outer.headings, piece.headings)
    return Piece(start, end, headings, (outer.start, outer.end))


def _empty(parents: Sequence[Piece]) -> Piece:
    """Return the only chunk of a blank text: it has a parent too, so that its id is of a kind."""
    start, end = (parents[0].start, parents[0].end) if parents else (0, 0)
    return Piece(start, start, (), (start, end))


def joined(above: tuple[str, ...], below: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings above a slice and then those in it; a common part is named once.

    A slice that begins with the heading of its section names that heading again.
    """
    common = min(len(above), len(below))
    while above[len(above) - common :] != below[:common]:
        common -= 1
    return above + below[common:]


def _first_of_each_span(pieces: Sequence[Piece]) -> list[Piece]:
    first: dict[tuple[int, int], Piece] = {}
    for piece in pieces:
        first.setdefault((piece.start, piece.end), piece)
    return list(first.values())
