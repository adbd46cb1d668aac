"""``compute`` in an ``experiment.yaml``."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rag_assets.options import Number, Options

_HOST = r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]"
ADDRESS = re.compile(rf"auto|(?:ray://)?(?:{_HOST}):\d{{1,5}}", re.ASCII)
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
        if not ADDRESS.fullmatch(self.address):
            raise ValueError(
                f"address must be auto, host:port or ray://host:port; found {self.address!r}"
            )
        if not self.cpus and not self.gpus:
            raise ValueError("a worker needs cpus or gpus")
        return self
