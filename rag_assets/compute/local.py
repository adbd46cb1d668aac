"""``compute: local``: everything in this process, block after block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")


class LocalCompute:
    """This process."""

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield what ``work`` makes of each block, in their order."""
        for number, block in enumerate(blocks):
            yield number, work(*block)

    def share(self, value: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Return the value."""
        return value

    def n_parts(self, n_rows: int) -> int:
        """Return 1: a whole stays whole."""
        return 1


LOCAL = LocalCompute()
