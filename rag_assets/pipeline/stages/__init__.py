"""All stages, in the order of the graph."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.pipeline.stage import Stage
from rag_assets.pipeline.stages.answerability import Answerability
from rag_assets.pipeline.stages.chunks import Chunks
from rag_assets.pipeline.stages.contexts import Contexts, RetrieverContexts
from rag_assets.pipeline.stages.embedding import EmbeddingIndexes, EmbeddingQueries, EmbeddingRuns
from rag_assets.pipeline.stages.fused import FusedRuns
from rag_assets.pipeline.stages.judgments import Judgments
from rag_assets.pipeline.stages.lexical import LexicalIndexes, LexicalQueries, LexicalRuns
from rag_assets.pipeline.stages.metrics import Leaderboard, Metrics, MetricsSummary
from rag_assets.pipeline.stages.overlaps import Overlaps
from rag_assets.pipeline.stages.query_sets import QuerySets
from rag_assets.pipeline.stages.sources import Documents, Qrels, Queries

_LEXICAL_RUNS = LexicalRuns()
_EMBEDDING_RUNS = EmbeddingRuns()

STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Documents(),
        Queries(),
        Qrels(),
        Chunks(),
        QuerySets(),
        LexicalIndexes(),
        EmbeddingIndexes(),
        LexicalQueries(),
        EmbeddingQueries(),
        Judgments(),
        Contexts(),
        RetrieverContexts(),
        _LEXICAL_RUNS,
        _EMBEDDING_RUNS,
        FusedRuns({"lexical": _LEXICAL_RUNS, "embedding": _EMBEDDING_RUNS}),
        Metrics(),
        MetricsSummary(),
        Leaderboard(),
        Answerability(),
        Overlaps(),
    )
}
"""Every asset of the graph, each after its inputs."""
