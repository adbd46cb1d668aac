"""``compute`` in an ``experiment.yaml``, and what takes its place in an environment."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rag_assets.compute.compute import Compute
from rag_assets.compute.local import LOCAL
from rag_assets.errors import UsageError
from rag_assets.options import Number, Options

VARIABLE = "RAG_ASSETS_COMPUTE"

_HOST = r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]"
_ADDRESS = re.compile(rf"auto|(?:ray://)?(?:{_HOST}):\d{{1,5}}", re.ASCII)


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


def compute_of(config: ComputeConfig) -> Compute:
    """Return the place to compute; nothing is started or reached yet.

    ``RAG_ASSETS_COMPUTE`` stands above the experiment, which may be shared by machines with and
    without a cluster: ``local``, ``ray``, or the address of a cluster.

    Raises:
        UsageError: the variable is none of these.
    """
    return _opened(_in_force(config, os.environ.get(VARIABLE, "")))


def _in_force(config: ComputeConfig, text: str) -> ComputeConfig:
    if text == "local":
        return ComputeConfig()
    if not text or (text == "ray" and config.type == "ray"):
        return config
    chosen = {name: getattr(config, name) for name in config.model_fields_set}
    if text == "ray":
        return ComputeConfig(type="ray")
    if not _ADDRESS.fullmatch(text):
        raise UsageError(
            f"{VARIABLE} must be local, ray, host:port or ray://host:port; found {text!r}"
        )
    return ComputeConfig(**{**chosen, "type": "ray", "address": text})


@cache
def _opened(config: ComputeConfig) -> Compute:
    """Return one object for equal options: a process has its workers once."""
    if config.type == "local":
        return LOCAL
    from rag_assets.compute.ray_cluster import RayCluster

    return RayCluster(config)


def release_workers() -> None:
    """Give the workers of this process back, and leave the cluster; later work starts others."""
    _opened.cache_clear()
    from rag_assets.compute.ray_connection import disconnect

    disconnect()
