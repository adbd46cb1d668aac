"""``compute: ray``: workers of a Ray cluster; those of a node that dies are started elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from rag_assets.compute.options import ComputeConfig
from rag_assets.compute.ray_blocks import BlockQueue
from rag_assets.compute.ray_connection import connect
from rag_assets.compute.ray_worker import RayWorker, package_versions
from rag_assets.errors import ComputeUnavailable

Result = TypeVar("Result")


class RayCluster:
    """The workers that this process has in a cluster; they are started for the first block."""

    def __init__(self, options: ComputeConfig) -> None:
        """Reach nothing yet."""
        self._options = options

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield what ``work`` makes of each block, as they are finished.

        Raises:
            UsageError: Ray is not installed.
            ComputeUnavailable: the cluster is not there, a node has other versions of packages, or
                too many workers died.
            RagAssetsError: as the work raised it.
        """
        queue = BlockQueue[Result](self._workers, self._start, _check_versions)
        yield from queue.results(work, blocks)

    def share(self, value: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Put a value into the cluster's memory, from which each node that needs it takes it."""
        connect(self._options.address)
        import ray

        return ray.put(value)

    def n_parts(self, n_rows: int) -> int:
        """Return 1 for what is small; else as many as there are workers, or more, smaller ones."""
        if n_rows <= self._options.shard_rows:
            return 1
        return max(-(-n_rows // self._options.shard_rows), min(len(self._workers), n_rows))

    @cached_property
    def _workers(self) -> list[Any]:
        """Handles of actors; Ray ends an actor whose handle is gone."""
        connect(self._options.address)
        return [self._start() for _ in range(self._n_workers())]

    def _start(self) -> Any:  # noqa: ANN401 (a handle of Ray)
        """Start a worker as soon as there is room for it."""
        import ray

        actor = ray.remote(RayWorker).options(
            num_cpus=self._options.cpus,
            num_gpus=self._options.gpus,
            scheduling_strategy="SPREAD",
        )
        return actor.remote()

    def _n_workers(self) -> int:
        """Return how many workers are wanted, or fit into the cluster as it is now."""
        if self._options.workers is not None:
            return self._options.workers
        import ray

        there = ray.cluster_resources()  # type: ignore[no-untyped-call]
        needs = {"CPU": self._options.cpus, "GPU": self._options.gpus}
        fits = min(int(there.get(name, 0) // need) for name, need in needs.items() if need)
        if not fits:
            found = ", ".join(f"{there.get(name, 0):g} {name}" for name, need in needs.items())
            raise ComputeUnavailable(
                f"the Ray cluster has no room for a worker with {self._options.cpus:g} cpus and "
                f"{self._options.gpus:g} gpus: it has {found}"
            )
        return fits


def _check_versions(told: tuple[str, dict[str, str]]) -> None:
    """Refuse a node with other packages.

    Raises:
        ComputeUnavailable: names the node and the package.
    """
    node, theirs = told
    for package, here in package_versions().items():
        if theirs.get(package) != here:
            raise ComputeUnavailable(
                f"node {node} of the Ray cluster has {package} {theirs.get(package)}, this machine "
                f"{here}; versions are part of a result, so install the same"
            )
