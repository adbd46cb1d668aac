"""One experiment, complete: configuration with defaults filled in, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_assets.datasets.dataset import Dataset
from rag_assets.evaluation.metric_names import MEASURES, Metric
from rag_assets.experiment.config import (
    BM25Config,
    ChunkingConfig,
    EmbeddingConfig,
    RetrieverConfig,
    RRFConfig,
)

FAMILIES = {BM25Config: "lexical", EmbeddingConfig: "embedding", RRFConfig: "fused"}
"""The family of each retriever type: one asset of runs exists a family."""

LEVEL_RULE = (
    "three levels: base (bm25, embedding) -> fused (rrf) -> reranked (of a base or fused one)"
)

QUERY_SET = "original"


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run.

    Attributes:
        name: prefix of its asset keys and folder in the store.
        source: the YAML file, or the folder or file that was given instead.
        has_file: whether ``source`` is an ``experiment.yaml``.
        dataset: reader of documents, queries and qrels.
        judge: the unit that is judged: ``document``, ``chunk`` or ``evidence``.
        has_qrels: whether there are labels; without them no metric exists.
        top_k: all cut-offs, ascending; one cell for each retriever and cut-off.
        listed_top_k: those under ``top_k``; the others serve one metric only (``recall@30``).
        metrics: measures, computed at each listed top_k.
        extra_metrics: measures asked for at one cut-off only, such as ``recall@30``.
        primary: ranks the leaderboard.
        baseline: the retriever that others are compared with.
        context_tokenizer: counts the tokens of what a retriever returns.
    """

    name: str
    source: Path
    has_file: bool
    dataset: Dataset
    judge: str
    has_qrels: bool
    chunkings: Mapping[str, ChunkingConfig]
    retrievers: Mapping[str, RetrieverConfig]
    top_k: tuple[int, ...]
    listed_top_k: tuple[int, ...]
    metrics: tuple[str, ...]
    extra_metrics: tuple[Metric, ...]
    primary: Metric
    baseline: str
    context_tokenizer: str

    def family(self, retriever: str) -> str:
        """Return ``lexical``, ``embedding`` or ``fused``."""
        return FAMILIES[type(self.retrievers[retriever])]

    def of_family(self, family: str) -> tuple[str, ...]:
        """Return the retrievers of one family, in the order of the YAML."""
        return tuple(name for name in self.retrievers if self.family(name) == family)

    def inputs(self, retriever: str) -> tuple[str, ...]:
        """Return the retrievers that this one fuses; none for a base retriever."""
        config = self.retrievers[retriever]
        return config.inputs if isinstance(config, RRFConfig) else ()

    def chunking_of(self, retriever: str) -> str:
        """Return the chunking that a base retriever searches."""
        config = self.retrievers[retriever]
        if isinstance(config, RRFConfig) or config.chunking is None:
            raise ValueError(f"{retriever} has no chunking of its own")
        return config.chunking

    def chunkings_of(self, retriever: str) -> tuple[str, ...]:
        """Return every chunking whose chunks can be in this retriever's runs, sorted."""
        bases = self.inputs(retriever) or (retriever,)
        return tuple(sorted({self.chunking_of(base) for base in bases}))

    def candidate_depths(self, retriever: str, top_k: int | None = None) -> set[int]:
        """Return the depths to which fused retrievers read this retriever's ranking.

        With ``top_k``, those of their cells at this cut-off only.
        """
        consumers = [
            config
            for config in self.retrievers.values()
            if isinstance(config, RRFConfig) and retriever in config.inputs
        ]
        depths = {c.candidates for c in consumers if isinstance(c.candidates, int)}
        if any(c.candidates == "top_k" for c in consumers):
            depths |= set(self.top_k) if top_k is None else {top_k}
        return depths

    def depth(self, retriever: str) -> int:
        """Return how deep the stored ranking must be: the deepest top_k or consumer."""
        return max({*self.top_k, *self.candidate_depths(retriever)})

    def measures_at(self, top_k: int) -> tuple[str, ...]:
        """Return the measures of the cells at ``top_k``, in canonical order."""
        extra = {m.measure for m in (*self.extra_metrics, self.primary) if m.cutoff == top_k}
        full = set(self.metrics) if top_k in self.listed_top_k else set()
        return tuple(m for m in MEASURES if m in full | extra)
