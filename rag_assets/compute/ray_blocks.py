"""Hands blocks to workers of a Ray cluster, and those that a dead worker had to others.

Ray restarts a worker where the cluster has room for it, so a worker that died may never come back
where there is none. A block is therefore no call that waits for its worker: it goes back to the
others, and the worker gets blocks again when it says that it is there.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rag_assets.errors import ComputeUnavailable, RagAssetsError

Result = TypeVar("Result")

MOST_LOSSES = 5
"""Workers that one block may lose: what kills every worker is not the machines' fault."""

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
        workers: handles of actors of ``RayWorker``.
        check: is given what a worker says of itself when it is there; raises where it must not
            work.
    """

    workers: Sequence[Any]
    check: Callable[[tuple[str, dict[str, str]]], None]
    _free: list[Any] = field(default_factory=list)
    _busy: dict[Any, tuple[Any, _Block]] = field(default_factory=dict)
    _away: dict[Any, Any] = field(default_factory=dict)
    _returned: deque[_Block] = field(default_factory=deque)
    _reason: str = ""

    def results(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number of a block, its result) as they are finished.

        Raises:
            ComputeUnavailable: no worker is left, or a block lost ``MOST_LOSSES`` workers.
            RagAssetsError: as the work raised it.
        """
        pickled = pickle.dumps(work)
        new = (_Block(number, arguments) for number, arguments in enumerate(blocks))
        for worker in self.workers:
            self._ask(worker)
        block = next(new, None)
        while block is not None or self._returned or self._busy:
            while self._free and (self._returned or block is not None):
                worker = self._free.pop()
                if self._returned:
                    self._give(worker, self._returned.popleft(), pickled)
                elif block is not None:
                    self._give(worker, block, pickled)
                    block = next(new, None)
            yield from self._finished()

    def _ask(self, worker: Any) -> None:  # noqa: ANN401 (a handle of Ray)
        """Let a worker say when it is there; it is asked again when it is restarted."""
        self._away[worker.versions.options(max_task_retries=-1).remote()] = worker

    def _give(self, worker: Any, block: _Block, pickled: bytes) -> None:  # noqa: ANN401 (as above)
        self._busy[worker.run.remote(pickled, *block.arguments)] = worker, block

    def _finished(self) -> Iterator[tuple[int, Any]]:
        """Wait until something happens; yield the blocks that are done."""
        import ray

        waiting = [*self._busy, *self._away]
        limit = None if self._busy else SECONDS_WITHOUT_WORKER
        done = ray.wait(waiting, num_returns=1, timeout=limit)[0] if waiting else []
        if not done:
            reason = f": {self._reason}" if self._reason else "; it has no room for one"
            raise ComputeUnavailable(f"the Ray cluster has no worker{reason}")
        for reference in done:
            if reference in self._away:
                self._welcome(reference)
            else:
                yield from self._result(reference)

    def _welcome(self, reference: Any) -> None:  # noqa: ANN401 (a reference of Ray)
        from ray.exceptions import ActorDiedError, RayError

        worker = self._away.pop(reference)
        try:
            self.check(_got(reference))
        except ActorDiedError as error:  # it cannot be started at all
            self._reason = _first_line(error)
        except RayError as error:
            self._reason = _first_line(error)
            self._ask(worker)
        else:
            self._free.append(worker)

    def _result(self, reference: Any) -> Iterator[tuple[int, Any]]:  # noqa: ANN401 (as above)
        from ray.exceptions import RayError

        worker, block = self._busy.pop(reference)
        try:
            result = _got(reference)
        except RayError as error:
            block.losses += 1
            self._reason = _first_line(error)
            if block.losses >= MOST_LOSSES:
                raise ComputeUnavailable(
                    f"{block.losses} workers of the Ray cluster died over one block: {self._reason}"
                ) from error
            self._returned.append(block)
            self._ask(worker)
        else:
            self._free.append(worker)
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


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split())[:300]
