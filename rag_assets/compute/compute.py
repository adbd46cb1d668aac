"""``compute``: the places to compute, of which each does the same work on many whole blocks.

An experiment and the environment say which one it is; ``local`` is this process. By ``ray`` each
block is a task of a Ray cluster; those of a node that dies go elsewhere. Ray keeps the process of a
task for the next one, so models stay loaded between blocks.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.errors import ComputeUnavailable, ModelUnavailable, RagAssetsError, UsageError
from rag_assets.options import Number, Options
from rag_assets.package_versions import version
from rag_assets.signal_handlers import sigterm_guard

Result = TypeVar("Result")

CONNECT_SECONDS = 5.0
"""How long a server may take to accept a connection."""

MAX_LOSSES = 5
"""Workers that one block may lose: what kills every worker is not the machines' fault."""

SECONDS_WITHOUT_RESULT = 300.0
"""After so long without a finished block it is looked whether the cluster has room for one."""

PACKAGES = (
    "rag-assets",
    "numpy",
    "faiss-cpu",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "semantic-text-splitter",
    "sentencex",
    "PyStemmer",
    "jieba",
    "icu4py",
)
"""Their versions decide results, so they are the same everywhere."""

_connected: list[str] = []
"""The address to which ``connect`` connected this process, if it did."""


class Compute:
    """A place to compute, this process; what is computed does not depend on which one it is."""

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number of a block, what ``work`` makes of it) as they are finished, in any order.

        Args:
            work: what is done; it can be pickled, and calling it twice gives the same.
            blocks: the arguments of each call; read as they are needed.
        """
        for number, block in enumerate(blocks):
            yield number, work(*block)

    def share(self, value: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Return what stands for ``value`` in blocks, for a value that many of them have."""
        return value

    def n_parts(self, n_rows: int) -> int:
        """Return into how many parts, of rows that can be worked on alone, a whole is cut."""
        return 1

    def for_rows(self, n_rows: int) -> Compute:
        """Return where so many rows are worked on: few of them are in this process."""
        return self

    @property
    def n_workers(self) -> int:
        """How many blocks are worked on at the same time."""
        return 1


@dataclass(frozen=True)
class RayCluster(Compute):
    """What this process has computed in a cluster; the options of ``compute`` say by whom."""

    options: ComputeConfig

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield what ``work`` makes of each block, as they are finished.

        Raises:
            UsageError: Ray is not installed.
            ComputeUnavailable: the cluster is not there or has no room, a node has other versions
                of packages, or too many workers died over a block.
            RagAssetsError: as the work raised it.
        """
        connect(self.options.address)
        import ray

        run = ray.remote(
            num_cpus=self.options.cpus,
            num_gpus=self.options.gpus,
            scheduling_strategy="SPREAD",
            max_retries=MAX_LOSSES - 1,
            max_calls=0,  # else a process with a card ends after each block, and its model
        )(_run)
        pickled, versions = ray.put(pickle.dumps(work)), package_versions()
        waiting, pending = enumerate(blocks), dict[Any, int]()
        n_workers = self.n_workers
        while True:
            while len(pending) < n_workers and (block := next(waiting, None)) is not None:
                pending[run.remote(pickled, versions, *block[1])] = block[0]
            if not pending:
                return
            done, _ = ray.wait([*pending], num_returns=1, timeout=SECONDS_WITHOUT_RESULT)
            if not done:
                self._n_fitting()
            for reference in done:
                yield pending.pop(reference), _result(reference)

    def share(self, value: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Put a value into the cluster's memory, from which each node that needs it takes it."""
        connect(self.options.address)
        import ray

        return ray.put(value)

    def n_parts(self, n_rows: int) -> int:
        """Return 1 for what is small; else as many as there are workers, or more, smaller ones."""
        if n_rows <= self.options.shard_rows:
            return 1
        return max(-(-n_rows // self.options.shard_rows), min(self.n_workers, n_rows))

    def for_rows(self, n_rows: int) -> Compute:
        """Return this process for what is small."""
        return self if n_rows > self.options.shard_rows else LOCAL

    @property
    def n_workers(self) -> int:
        """How many workers are wanted, or fit into the cluster as it is now."""
        connect(self.options.address)
        return self.options.workers or self._n_fitting()

    def _n_fitting(self) -> int:
        """Return how many workers fit into the cluster.

        Raises:
            ComputeUnavailable: none.
        """
        import ray

        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        needs = {"CPU": self.options.cpus, "GPU": self.options.gpus}
        fits = min(int(resources.get(name, 0) // need) for name, need in needs.items() if need)
        if not fits:
            present = ", ".join(f"{resources.get(name, 0):g} {name}" for name in needs)
            raise ComputeUnavailable(
                f"the Ray cluster has no room for a worker with {self.options.cpus:g} cpus and "
                f"{self.options.gpus:g} gpus: it has {present}"
            )
        return fits


def _run(pickled: bytes, versions: Mapping[str, str], *block: Any) -> Any:  # noqa: ANN401
    """Return what the work makes of a block; it runs on a node.

    Raises:
        ComputeUnavailable: the node has other packages.
        ModelUnavailable: names the node.
    """
    node = socket.gethostname()
    for package, there in package_versions().items():
        if versions[package] != there:
            raise ComputeUnavailable(
                f"node {node} of the Ray cluster has {package} {there}, the machine of the "
                f"evaluation {versions[package]}; results depend on versions, so install the same "
                "one"
            )
    try:
        return _unpickled(pickled)(*block)
    except ModelUnavailable as error:
        raise ModelUnavailable(f"on node {node}: {error}") from error


@lru_cache(maxsize=1)
def _unpickled(pickled: bytes) -> Callable[..., Any]:
    work: Callable[..., Any] = pickle.loads(pickled)
    return work


def _result(reference: Any) -> Any:  # noqa: ANN401 (whatever was worked on)
    """Return the result of a task.

    Raises:
        RagAssetsError: the work raised it.
        ComputeUnavailable: the workers that had it died.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, RagAssetsError):
            raise error.cause from None
        raise RuntimeError(str(error)) from error
    except RayError as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ComputeUnavailable(
            f"{MAX_LOSSES} workers of the Ray cluster died over one block: {reason}"
        ) from error


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
    try:
        if address != "auto":  # Ray itself waits for a cluster for minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        with sigterm_guard():
            ray.init(address, log_to_driver=False, configure_logging=False)
        os.environ.pop("PYTHONBREAKPOINT", None)  # a hook of Ray's debugger
    except (RuntimeError, ValueError, ImportError, OSError, OverflowError, RayError) as error:
        where = "on this machine, nor is RAY_ADDRESS set" if address == "auto" else f"at {address}"
        what = " ".join(str(error).split())[:300].rstrip(".")
        raise ComputeUnavailable(
            f"compute: ray found no Ray cluster {where}: {what}; start one with `ray start "
            "--head`, give its `address`, or set RAG_ASSETS_COMPUTE=local"
        ) from error
    _connected.append(address)


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of those of ``PACKAGES`` that are installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    return versions


VARIABLE = "RAG_ASSETS_COMPUTE"

_HOST = r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]"
_ADDRESS = re.compile(rf"auto|(?:ray://)?(?:{_HOST}):\d{{1,5}}", re.ASCII)
"""Of a cluster."""


class ComputeConfig(Options):
    """The machines that compute; no result and no fingerprint depends on them.

    ``ray`` sends texts, pairs, prompts and large indexes to ``workers`` of a Ray cluster, each with
    ``cpus`` cores, and ``gpus`` cards for models that run on them (default: as many
    as fit). ``address`` is ``auto`` (the cluster that this machine belongs to, or ``RAY_ADDRESS``),
    ``host:port`` or ``ray://host:port``. More than ``shard_rows`` documents or chunks are cut,
    analysed and searched by the workers; an index of vectors in parts of at most that size.
    """

    type: Literal["local", "ray"] = "local"
    address: Annotated[str, Field(min_length=1)] = "auto"
    workers: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None
    cpus: Annotated[Number, Field(ge=0)] = 1
    gpus: Annotated[Number, Field(ge=0)] = 0
    shard_rows: Annotated[int, Field(ge=1, strict=True)] = 100_000

    @model_validator(mode="before")
    @classmethod
    def _word(cls, data: object) -> object:
        """Take a lone word for the type."""
        return {"type": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _belongs_to_ray(self) -> Self:
        others = sorted(self.model_fields_set - {"type"})
        if self.type == "local" and others:
            raise ValueError(f"{', '.join(others)}: only for type: ray")
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError(
                f"address must be auto, host:port or ray://host:port; found {self.address!r}"
            )
        if not self.cpus and not self.gpus:
            raise ValueError("a worker needs cpus or gpus")
        return self


LOCAL = Compute()


def compute_of(config: ComputeConfig) -> Compute:
    """Return the place to compute; nothing is started or reached yet.

    ``RAG_ASSETS_COMPUTE`` stands above the experiment, which may be shared by machines with and
    without a cluster: ``local``, ``ray``, or the address of a cluster.

    Raises:
        UsageError: the variable is none of these.
    """
    return _opened(in_force(config, os.environ.get(VARIABLE, "")))


def in_force(config: ComputeConfig, variable: str) -> ComputeConfig:
    """Return what counts of an experiment's options and the variable; errors as above."""
    if variable == "local":
        return ComputeConfig()
    if not variable or (variable == "ray" and config.type == "ray"):
        return config
    if variable == "ray":
        return ComputeConfig(type="ray")
    if not _ADDRESS.fullmatch(variable):
        raise UsageError(
            f"{VARIABLE} must be local, ray, host:port or ray://host:port; found {variable!r}"
        )
    chosen = {name: getattr(config, name) for name in config.model_fields_set}
    return ComputeConfig(**{**chosen, "type": "ray", "address": variable})


@cache
def _opened(config: ComputeConfig) -> Compute:
    """Return one object for equal options."""
    return LOCAL if config.type == "local" else RayCluster(config)


def release_workers() -> None:
    """Leave the cluster to which this process connected; later work connects anew."""
    _opened.cache_clear()
    if _connected:
        import ray

        ray.shutdown()
        _connected.clear()
