"""``compute: ray``: workers of a Ray cluster; those of a node that dies are started elsewhere.

A worker is one process on a node, which keeps its models between blocks.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from typing import Any, TypeVar

from rag_assets.compute.options import ComputeConfig
from rag_assets.compute.ray_blocks import BlockQueue
from rag_assets.errors import ComputeUnavailable, ModelUnavailable, UsageError
from rag_assets.signal_handlers import sigterm_guard

Result = TypeVar("Result")

SECONDS = 5.0
"""How long a server may take to accept a connection."""


_connected: list[str] = []
"""The address to which ``connect`` connected this process, if it did."""


PACKAGES = (
    "rag-assets",
    "numpy",
    "faiss-cpu",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
)
"""Their versions decide results, so they are the same everywhere."""


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

        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        needs = {"CPU": self._options.cpus, "GPU": self._options.gpus}
        fits = min(int(resources.get(name, 0) // need) for name, need in needs.items() if need)
        if not fits:
            present = ", ".join(
                f"{resources.get(name, 0):g} {name}" for name, need in needs.items()
            )
            raise ComputeUnavailable(
                f"the Ray cluster has no room for a worker with {self._options.cpus:g} cpus and "
                f"{self._options.gpus:g} gpus: it has {present}"
            )
        return fits


def _check_versions(reported: tuple[str, dict[str, str]]) -> None:
    """Refuse a node with other packages.

    Raises:
        ComputeUnavailable: names the node and the package.
    """
    node, theirs = reported
    for package, here in package_versions().items():
        if theirs.get(package) != here:
            raise ComputeUnavailable(
                f"node {node} of the Ray cluster has {package} {theirs.get(package)}, this machine "
                f"{here}; results depend on versions, so install the same"
            )


def connect(address: str) -> None:
    """Connect this process; one that is connected already stays so.

    Raises:
        UsageError: Ray is not installed.
        ComputeUnavailable: there is no cluster at the address, or it is of another version.
    """
    if find_spec("ray") is None:
        raise UsageError("compute: ray needs the package ray: pip install 'rag-assets[ray]'")
    import ray
    from ray.exceptions import RayError

    if ray.is_initialized():
        return
    if address != "auto":
        _check_answers(address)
    try:
        with sigterm_guard():
            ray.init(address, log_to_driver=False, configure_logging=False)
    except (RuntimeError, ValueError, ImportError, OSError, RayError) as error:
        raise ComputeUnavailable(_refused(address, str(error))) from error
    _connected.append(address)


def disconnect() -> None:
    """Leave the cluster to which ``connect`` connected this process; its workers end."""
    if _connected:
        import ray

        ray.shutdown()
        _connected.clear()


def _check_answers(address: str) -> None:
    """Ask for a connection before Ray does, which waits for a cluster for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ComputeUnavailable(_refused(address, str(error))) from error


def _refused(address: str, problem: str) -> str:
    where = "on this machine, nor is RAY_ADDRESS set" if address == "auto" else f"at {address}"
    what = " ".join(problem.split())[:300].rstrip(".")
    return (
        f"compute: ray found no Ray cluster {where}: {what}; start one with `ray start --head`, "
        "give its `address`, or set RAG_ASSETS_COMPUTE=local"
    )


class RayWorker:
    """Does any work that the driver sends; models stay in memory as in any other process."""

    def __init__(self) -> None:
        """Know no work yet."""
        self._pickled = b""
        self._work: Callable[..., Any] | None = None

    def versions(self) -> tuple[str, dict[str, str]]:
        """Return the name of the node, and the versions of the packages that decide results."""
        return socket.gethostname(), package_versions()

    def run(self, pickled: bytes, *block: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Return what the work makes of a block; it is unpickled when it is another than before.

        Raises:
            ModelUnavailable: names the node.
        """
        try:
            if self._work is None or pickled != self._pickled:
                self._work, self._pickled = pickle.loads(pickled), pickled
            return self._work(*block)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"on node {socket.gethostname()}: {error}") from error


def package_versions() -> dict[str, str]:
    """Return the versions of those of ``PACKAGES`` that are installed."""
    from importlib.metadata import PackageNotFoundError

    from rag_assets.package_versions import version

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    return versions
