"""How rows are put in groups, to find those with high sums without a look at each.

The k-th highest of the maxima of disjoint sets of rows is at most the k-th highest sum, as k of the
sets have a row that reaches it. Large sets, the parts, give this bound; small ones, the groups of
which the parts are made, tell where the rows are that reach it. Few rows are their own groups.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

DEEP = 500
"""Rows for each that is wanted from which on groups hold several ..."""

DEPTH = 8
"""... and how many."""


class Grid(NamedTuple):
    """Row r is in group r % groups, and group g in part g % parts.

    Attributes:
        parts: number of parts.
        width: groups in each.
        depth: rows in each group; there may be more cells than rows, which have the sum 0.
    """

    parts: int
    width: int
    depth: int

    @classmethod
    def of(cls, n_rows: int, k: int) -> Grid:
        """Return groups of few rows, and a few parts for each row that is wanted.

        The fewer parts, the quicker is the k-th highest maximum found, and the lower it is: of 4 k
        parts, some 1.15 k rows reach it.
        """
        depth = DEPTH if n_rows >= DEEP * k else 1
        groups = n_rows // depth
        width = max(1, groups // max(1, 4 * k, 4 * isqrt(groups)))
        return cls(-(-n_rows // (width * depth)), width, depth)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.parts * self.width

    @property
    def cells(self) -> int:
        """Number of cells of a query."""
        return self.groups * self.depth
