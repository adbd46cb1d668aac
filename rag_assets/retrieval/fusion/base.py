"""What all fusions share: their inputs and weights; the methods are in :mod:`.methods`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator, model_validator

from rag_assets.options import Depth, Number, Options
from rag_assets.retrieval.base import FUSED, DerivedRetriever, Role
from rag_assets.retrieval.recency import Recency

Weight = Annotated[Number, Field(ge=0)]

TUNED = "tuned"
"""Stands under ``weights`` where they are chosen on the dev split."""


class Tune(Options):
    """How weights are chosen.

    ``metric`` is what they are best at, with a cut-off; the experiment's primary one by default.
    ``grid`` is how many values each weight takes from 0 to 1: 11 is steps of 0.1.
    """

    metric: str | None = Field(default=None, min_length=1)
    grid: Annotated[int, Field(ge=2, le=101, strict=True)] = 11


class FusedRetriever(DerivedRetriever, ABC):
    """One ranking out of several; ``weights`` are one factor an input, in their order.

    ``weights: tuned``, or ``tune`` with its options, asks for the weights that are best on the dev
    split: ``tune`` is then set, ``weights`` is not, and ``weighted`` gives what can be fused.
    With ``recency`` fused scores fall with the age of the document.
    """

    family: ClassVar[str] = "fused"
    level: ClassVar[int] = FUSED

    inputs: tuple[str, ...] = Field(min_length=2)
    candidates: Depth | Literal["top_k"] = 100
    weights: tuple[Weight, ...] | None = None
    tune: Annotated[Tune | None, Role.NOTHING] = None
    recency: Recency | None = None

    @model_validator(mode="before")
    @classmethod
    def _tuned_weights(cls, data: object) -> object:
        """Take ``weights: tuned`` for ``tune`` with its defaults."""
        if isinstance(data, dict) and data.get("weights") == TUNED:
            others = {name: value for name, value in data.items() if name != "weights"}
            return {**others, "tune": {} if data.get("tune") is None else data["tune"]}
        return data

    @field_validator("weights", mode="before")
    @classmethod
    def _numbers_or_tuned(cls, weights: object) -> object:
        if isinstance(weights, str):
            raise ValueError(f"must be a list of numbers or the word {TUNED}; found {weights!r}")
        return weights

    @field_validator("tune")
    @classmethod
    def _not_both(cls, tune: Tune | None, info: ValidationInfo) -> Tune | None:
        if tune is not None and info.data.get("weights") is not None:
            raise ValueError("give weights or tune, not both")
        return tune

    @field_validator("weights")
    @classmethod
    def _one_an_input(
        cls, weights: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        inputs = info.data.get("inputs", ())
        if weights is not None and inputs and len(weights) != len(inputs):
            raise ValueError(f"needs one weight for each input: {len(inputs)}, not {len(weights)}")
        return weights

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.inputs

    def weighted(self, weights: Sequence[float]) -> Self:
        """Return this retriever with weights of its own."""
        return self.model_copy(update={"weights": tuple(weights), "tune": None})

    @abstractmethod
    def fuse(self, rankings: Sequence[pa.Table], *, candidates: int, depth: int) -> pa.Table:
        """Fuse rankings of the same queries.

        Args:
            rankings: tables of :data:`rag_assets.schemas.RUNS`, in the order of ``inputs``.
            candidates: how many ranks of each are read.
            depth: how many ranks are kept.

        Returns:
            Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
        """
