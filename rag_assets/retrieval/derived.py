"""Retrievers that read the stored rankings of others: fused ones, by weights, and reranked ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator, model_validator

from rag_assets.options import Depth, Number, Options
from rag_assets.retrieval.base import FUSED, RERANKED, Retriever, Role
from rag_assets.retrieval.recency import Recency
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.workspace import Workspace

TUNED = "tuned"
"""Stands under ``weights`` where they are chosen on the dev split."""

ALL = "all"
"""Stands under ``candidates`` where every unit is scored, whatever the input ranks."""

Weight = Annotated[Number, Field(ge=0)]


class Tune(Options):
    """How weights are chosen.

    ``metric`` is what they are best at, with a cut-off; the experiment's primary one by default.
    ``grid`` is how many values each weight takes from 0 to 1: 11 is steps of 0.1.
    """

    metric: str | None = Field(default=None, min_length=1)
    grid: Annotated[int, Field(ge=2, le=101, strict=True)] = 11


class DerivedRetriever(Retriever, ABC):
    """A retriever that reads others to the depth of ``candidates``.

    ``candidates`` is a number, or ``top_k`` to read the lists already cut at the cell's top_k.
    """

    candidates: Depth | Literal["top_k", "all"]

    @property
    def scores_all(self) -> bool:
        """Whether it reads no ranking, but every unit that its inputs could return."""
        return self.candidates == ALL


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


class Reranked(NamedTuple):
    """New scores.

    Attributes:
        scores: for each query, one score a candidate, in the candidates' order; float64.
        failures: query id -> why it has no scores; its entry in ``scores`` is not read.
        seconds: query id -> what a server took for it, where it was asked for all; None where no
            server is asked.
        cost: money for a query that a server scores, on average; None where that is not known.
    """

    scores: Sequence[Scores]
    failures: Mapping[str, str] = {}
    seconds: Mapping[str, float] | None = None
    cost: float | None = None


class RerankedRetriever(DerivedRetriever, ABC):
    """The candidates of another retriever in a new order; nothing below them is returned.

    With ``candidates: all`` they are all chunks that the input can return, and the input is not
    asked; more than ``max_pairs`` pairs of a query and a chunk are refused.

    Attributes:
        drops: whether it may leave candidates out.
        scores_pairs: whether a score depends on the query and the text alone, and costs no money:
            then all chunks can be its candidates.
    """

    drops: ClassVar[bool] = False
    scores_pairs: ClassVar[bool] = False

    family: ClassVar[str] = "reranked"
    level: ClassVar[int] = RERANKED

    input: str
    candidates: Depth | Literal["top_k", "all"] = 50
    max_pairs: Annotated[int, Field(ge=1, strict=True), Role.NOTHING] = 200_000

    @field_validator("candidates")
    @classmethod
    def _all_by_pairs(cls, candidates: int | str) -> int | str:
        if candidates == ALL and not cls.scores_pairs:
            raise ValueError(
                "all is for local models that score each text alone, such as cross_encoder and "
                "maxsim; give a number or top_k"
            )
        return candidates

    @property
    def input_names(self) -> tuple[str, ...]:
        return (self.input,)

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the scores besides the options, such as a model's weights."""
        return {}

    @abstractmethod
    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Score the candidates of every query; equal scores are ordered by id, descending.

        A reranker that gives an order and no scores returns 1 / rank. A candidate whose score is
        NaN is dropped; only a type that :attr:`drops` gives it.
        """

    def passages_by_request(self, depth: int) -> list[int]:
        """Return how many of ``depth`` candidates each request about one query shows a server."""
        return [1] * depth

    def tokens_at_most(
        self, n_queries: int, query_bytes: int, sizes: Sequence[int], depth: int
    ) -> tuple[int, float | None]:
        """Return tokens of all requests and their cost, at most; a token has at least a byte.

        Args:
            n_queries: how many are asked about.
            query_bytes: of all of them.
            sizes: bytes of every text that can be a candidate, descending.
            depth: candidates of a query.
        """
        n_requests = len(self.passages_by_request(depth))
        return n_queries * sum(sizes[:depth]) + query_bytes * n_requests, None

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Rerank one query past what is kept of it, for a measurement.

        It loads the model where all scores were known: a new ranking has a time of its own, also
        where only the code is another one.

        Returns:
            Whether it was done; never where a server is asked, which would charge for it.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        return False
