"""All stages, in the order of the graph."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.pipeline.stage import Stage
from rag_assets.pipeline.stages.answerability import Answerability
from rag_assets.pipeline.stages.attributions import Attributions
from rag_assets.pipeline.stages.chunks import Chunks
from rag_assets.pipeline.stages.comparisons import Comparisons
from rag_assets.pipeline.stages.contexts import Contexts, RetrieverContexts
from rag_assets.pipeline.stages.dev_judgments import DevJudgments
from rag_assets.pipeline.stages.embedding import EmbeddingIndexes, EmbeddingQueries, EmbeddingRuns
from rag_assets.pipeline.stages.fused import FusedRuns
from rag_assets.pipeline.stages.imported import ImportedRankings, ImportedRuns
from rag_assets.pipeline.stages.intervals import Intervals
from rag_assets.pipeline.stages.judgments import Judgments
from rag_assets.pipeline.stages.lexical import (
    LexicalIndexes,
    LexicalQueries,
    LexicalRuns,
    TermCounts,
)
from rag_assets.pipeline.stages.list_similarities import ListSimilarities
from rag_assets.pipeline.stages.metrics import Leaderboard, Metrics, MetricsSummary
from rag_assets.pipeline.stages.overlaps import Overlaps
from rag_assets.pipeline.stages.query_facts import QueryFacts
from rag_assets.pipeline.stages.query_filters import QueryFilters
from rag_assets.pipeline.stages.query_sets import QuerySetAnswers, QuerySets
from rag_assets.pipeline.stages.reranked import RerankedRuns, RerankingTexts
from rag_assets.pipeline.stages.sources import Documents, Qrels, Queries
from rag_assets.pipeline.stages.tuning import Tuning

_LEXICAL_RUNS = LexicalRuns()
_EMBEDDING_RUNS = EmbeddingRuns()
_IMPORTED_RUNS = ImportedRuns()
_BASE_RUNS = {stage.family: stage for stage in (_LEXICAL_RUNS, _EMBEDDING_RUNS, _IMPORTED_RUNS)}
_FUSED_RUNS = FusedRuns(_BASE_RUNS)
_RERANKED_RUNS = RerankedRuns({**_BASE_RUNS, _FUSED_RUNS.family: _FUSED_RUNS})

STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Documents(),
        Queries(),
        Qrels(),
        QueryFacts(),
        QueryFilters(),
        Chunks(),
        QuerySetAnswers(),
        QuerySets(),
        TermCounts(),
        LexicalIndexes(),
        EmbeddingIndexes(),
        LexicalQueries(),
        EmbeddingQueries(),
        Judgments(),
        Contexts(),
        RetrieverContexts(),
        _LEXICAL_RUNS,
        _EMBEDDING_RUNS,
        ImportedRankings(),
        _IMPORTED_RUNS,
        DevJudgments(),
        Tuning(_BASE_RUNS),
        _FUSED_RUNS,
        RerankingTexts(),
        _RERANKED_RUNS,
        ListSimilarities(),
        Metrics(),
        MetricsSummary(),
        Leaderboard(),
        Intervals(),
        Comparisons(),
        Answerability(),
        Overlaps(),
        Attributions((*_BASE_RUNS.values(), _FUSED_RUNS, _RERANKED_RUNS)),
    )
}
"""Every asset of the graph, each after its inputs."""
