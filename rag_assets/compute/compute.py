"""``compute``: the places to compute, of which each does the same work on many whole blocks.

An experiment and the environment say which one it is; ``local`` is this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.errors import UsageError
from rag_assets.options import Number, Options

VARIABLE = "RAG_ASSETS_COMPUTE"
Result = TypeVar("Result")

_HOST = r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]"
_ADDRESS = re.compile(rf"auto|(?:ray://)?(?:{_HOST}):\d{{1,5}}", re.ASCII)
"""Of a cluster."""


class ComputeConfig(Options):
    """Where it is computed; no result and no fingerprint depends on it.

    ``ray`` sends texts, pairs and parts of large indexes to ``workers`` of a Ray cluster, each with
    ``cpus`` cores, and ``gpus`` cards where models run on them; without a number there are as many
    as fit. ``address`` is ``auto`` (the cluster that this machine belongs to, or ``RAY_ADDRESS``),
    ``host:port`` or ``ray://host:port``. An index of more than ``shard_rows`` vectors is searched
    in parts of so many at most.
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
    if config.type == "local":
        return LOCAL
    from rag_assets.compute.ray_cluster import RayCluster

    return RayCluster(**config.model_dump(exclude={"type"}))


def release_workers() -> None:
    """Leave the cluster; later work connects anew."""
    _opened.cache_clear()
    from rag_assets.compute.ray_cluster import disconnect

    disconnect()
