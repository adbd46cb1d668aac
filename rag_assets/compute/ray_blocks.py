"""Hands blocks to workers of a Ray cluster, and those that a dead worker had to others.

A worker of a node that died is started anew where the cluster has room for it, which may be never.
So no block waits for its worker: it goes to another one, and the new worker gets blocks when it
says that it is there.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rag_assets.errors import ComputeUnavailable, RagAssetsError

Result = TypeVar("Result")

MAX_LOSSES = 5
"""Workers that one block may lose: what kills every worker is not the machines' fault."""

MAX_STARTS = 5
"""How often in a row a worker may fail to start before it is given up."""

SECONDS_WITHOUT_WORKER = 300.0
"""How long no worker at all may be there; a cluster that grows needs minutes for a node."""


@dataclass
class _Block:
    number: int
    arguments: tuple[Any, ...]
    losses: int = 0


@dataclass
class BlockQueue(Generic[Result]):
    """The state of one piece of work on many blocks.

    Attributes:
        workers: handles of actors of ``RayWorker``; one that died is replaced in the list.
        start: starts another one, or asks the cluster to when it has room.
        check: is given what a worker says of itself when it is there; raises where it must not
            work.
    """

    workers: list[Any]
    start: Callable[[], Any]
    check: Callable[[tuple[str, dict[str, str]]], None]
    _free: list[int] = field(default_factory=list)
    _busy: dict[Any, tuple[int, _Block]] = field(default_factory=dict)
    _away: dict[Any, int] = field(default_factory=dict)
    _failures: Counter[int] = field(default_factory=Counter)
    _returned: deque[_Block] = field(default_factory=deque)
    _reason: str = ""

    def results(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number of a block, its result) as they are finished.

        Raises:
            ComputeUnavailable: no worker is left, or a block lost ``MAX_LOSSES`` workers.
            RagAssetsError: as the work raised it.
        """
        pickled = pickle.dumps(work)
        new = (_Block(number, arguments) for number, arguments in enumerate(blocks))
        for slot in range(len(self.workers)):
            self._ask(slot)
        block = next(new, None)
        while block is not None or self._returned or self._busy:
            while self._free and (self._returned or block is not None):
                slot = self._free.pop()
                if self._returned:
                    self._give(slot, self._returned.popleft(), pickled)
                elif block is not None:
                    self._give(slot, block, pickled)
                    block = next(new, None)
            yield from self._finished()

    def _ask(self, slot: int) -> None:
        """Let a worker say when it is there."""
        self._away[self.workers[slot].versions.remote()] = slot

    def _give(self, slot: int, block: _Block, pickled: bytes) -> None:
        self._busy[self.workers[slot].run.remote(pickled, *block.arguments)] = slot, block

    def _replace(self, slot: int) -> None:
        """Start a worker in the place of one that died."""
        import ray

        ray.kill(self.workers[slot])  # it may live on where only the way to it broke
        self.workers[slot] = self.start()
        self._ask(slot)

    def _finished(self) -> Iterator[tuple[int, Any]]:
        """Wait until something happens; yield the block that is done, if it is one."""
        import ray

        waiting = [*self._busy, *self._away]
        limit = None if self._busy else SECONDS_WITHOUT_WORKER
        done = ray.wait(waiting, num_returns=1, timeout=limit)[0] if waiting else []
        if not done:
            reason = self._reason or "it has no room for one"
            raise ComputeUnavailable(f"the Ray cluster has no worker: {reason}")
        (reference,) = done
        if reference in self._away:
            self._welcome(reference)
        else:
            yield from self._result(reference)

    def _welcome(self, reference: Any) -> None:  # noqa: ANN401 (a reference of Ray)
        from ray.exceptions import RayError

        slot = self._away.pop(reference)
        try:
            self.check(_got(reference))
        except RayError as error:
            self._reason = _one_line(error)
            self._failures[slot] += 1
            if self._failures[slot] < MAX_STARTS:
                self._replace(slot)
        else:
            self._failures[slot] = 0
            self._free.append(slot)

    def _result(self, reference: Any) -> Iterator[tuple[int, Any]]:  # noqa: ANN401 (as above)
        from ray.exceptions import RayError

        slot, block = self._busy.pop(reference)
        try:
            result = _got(reference)
        except RayError as error:
            block.losses += 1
            self._reason = _one_line(error)
            if block.losses >= MAX_LOSSES:
                raise ComputeUnavailable(
                    f"{block.losses} workers of the Ray cluster died over one block: {self._reason}"
                ) from error
            self._returned.append(block)
            self._replace(slot)
        else:
            self._free.append(slot)
            yield block.number, result


def _got(reference: Any) -> Any:  # noqa: ANN401 (whatever was worked on)
    """Return a result.

    Raises:
        RagAssetsError: the work raised it.
        RayError: the worker is gone, or what it made.
    """
    import ray
    from ray.exceptions import RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, RagAssetsError):
            raise error.cause from None
        raise RuntimeError(str(error)) from error


def _one_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split())[:300]
