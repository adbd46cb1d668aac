"""What a place to compute is: it does the same work on many blocks, each of them whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Compute(Protocol):
    """A place to compute; what is computed does not depend on which one it is."""

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number of a block, what ``work`` makes of it) as they are finished, in any order.

        Args:
            work: what is done; it can be pickled, and calling it twice gives the same.
            blocks: the arguments of each call; read as they are needed.
        """

    def share(self, value: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Return what stands for ``value`` in blocks, for a value that many of them have."""

    def n_parts(self, n_rows: int) -> int:
        """Return into how many parts, of rows that can be worked on alone, a whole is cut."""
