"""All stages, in the order of the graph."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.answers.contexts_stage import AnswerContexts, PassageLists, Passages
from rag_assets.answers.metrics_stage import AnswerMetricsStage
from rag_assets.answers.stage import Answers
from rag_assets.answers.summary_stage import AnswerComparisons, AnswerSummary
from rag_assets.answers.waterfall_stage import AnswerWaterfall
from rag_assets.chunking.stage import Chunks, IndexTexts
from rag_assets.engine.stage import Stage
from rag_assets.evaluation.answerability_stage import Answerability
from rag_assets.evaluation.attributions_stage import Attributions
from rag_assets.evaluation.contexts_stage import Contexts, RetrieverContexts
from rag_assets.evaluation.list_similarities_stage import ListSimilarities, SecondListSimilarities
from rag_assets.evaluation.metrics_stage import Leaderboard, Metrics, MetricsSummary
from rag_assets.evaluation.overlaps_stage import Overlaps
from rag_assets.evaluation.query_facts_stage import QueryFacts
from rag_assets.evaluation.relevant_units_stage import DevRelevantUnits, RelevantUnits
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.calibration_stage import (
    AnswerLabels,
    CalibratedDifferences,
    CalibratedMeans,
    CalibratedRankings,
)
from rag_assets.judges.verdicts_stage import AnswerVerdicts, RelevanceVerdicts
from rag_assets.labels.generation.questions_stage import GeneratedQuestionsStage
from rag_assets.labels.sampling.sample_stage import (
    SampledEstimates,
    SampledLabels,
    SampledPassages,
)
from rag_assets.query_sets.stage import DocumentFields, QuerySetAnswers, QuerySets
from rag_assets.retrieval.dense.stage import EmbeddingIndexes, EmbeddingQueries, EmbeddingRuns
from rag_assets.retrieval.external.stage import (
    ExternalHits,
    ExternalRankings,
    ExternalRuns,
    ExternalUnits,
)
from rag_assets.retrieval.fusion.stage import FusedRuns, SecondFusedRuns, Tuning
from rag_assets.retrieval.imported_stage import ImportedRankings, ImportedRuns
from rag_assets.retrieval.lexical.stage import (
    LexicalIndexes,
    LexicalQueries,
    LexicalRuns,
    TermCounts,
)
from rag_assets.retrieval.reranking.stage import (
    RerankedRuns,
    RerankingTexts,
    SecondRerankedRuns,
    SecondRerankingTexts,
)
from rag_assets.retrieval.search_steps_stage import QueryFilters, RecencyFactors, WrittenFilters
from rag_assets.sources.stage import Documents, Qrels, Queries
from rag_assets.statistics.stage import Comparisons, Intervals

_LEXICAL_RUNS = LexicalRuns()
_EMBEDDING_RUNS = EmbeddingRuns()
_IMPORTED_RUNS = ImportedRuns()
_EXTERNAL_RUNS = ExternalRuns()
_BASE_RUNS = {
    stage.family: stage
    for stage in (_LEXICAL_RUNS, _EMBEDDING_RUNS, _IMPORTED_RUNS, _EXTERNAL_RUNS)
}
_FUSED_RUNS = FusedRuns(_BASE_RUNS)
_RERANKED_RUNS = RerankedRuns({**_BASE_RUNS, _FUSED_RUNS.family: _FUSED_RUNS})
_FIRST_RUNS = {stage.family: stage for stage in (*_BASE_RUNS.values(), _FUSED_RUNS, _RERANKED_RUNS)}
_SECOND_FUSED_RUNS = SecondFusedRuns(_FIRST_RUNS)
_SECOND_RERANKED_RUNS = SecondRerankedRuns(
    {**_FIRST_RUNS, _SECOND_FUSED_RUNS.family: _SECOND_FUSED_RUNS}
)
_ALL_RUNS = (*_FIRST_RUNS.values(), _SECOND_FUSED_RUNS, _SECOND_RERANKED_RUNS)

STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Documents(),
        GeneratedQuestionsStage(),
        Queries(),
        Qrels(),
        QueryFacts(),
        QueryFilters(),
        RecencyFactors(),
        Chunks(),
        IndexTexts(),
        DocumentFields(),
        QuerySetAnswers(),
        QuerySets(),
        TermCounts(),
        LexicalIndexes(),
        EmbeddingIndexes(),
        WrittenFilters(),
        LexicalQueries(),
        EmbeddingQueries(),
        ExternalRankings(),
        ExternalHits(),
        ExternalUnits(),
        RelevantUnits(),
        Contexts(),
        RetrieverContexts(),
        _LEXICAL_RUNS,
        _EMBEDDING_RUNS,
        ImportedRankings(),
        _IMPORTED_RUNS,
        _EXTERNAL_RUNS,
        DevRelevantUnits(),
        Tuning(_BASE_RUNS),
        _FUSED_RUNS,
        RerankingTexts(),
        _RERANKED_RUNS,
        _SECOND_FUSED_RUNS,
        SecondRerankingTexts(),
        _SECOND_RERANKED_RUNS,
        ListSimilarities(),
        SecondListSimilarities(),
        Metrics(),
        MetricsSummary(),
        Intervals(),
        Comparisons(),
        # Behind the comparisons, which say who wins: Dagster is told of that with the board.
        Leaderboard(),
        Answerability(),
        Overlaps(),
        Attributions(_ALL_RUNS),
        Passages(),
        PassageLists(),
        AnswerContexts(),
        Answers(),
        AnswerMetricsStage(),
        AnswerSummary(),
        AnswerComparisons(),
        AnswerWaterfall(_ALL_RUNS),
        RelevanceVerdicts(),
        AnswerVerdicts(),
        AnswerLabels(),
        CalibratedMeans(),
        CalibratedDifferences(),
        CalibratedRankings(),
        SampledPassages(),
        SampledLabels(),
        SampledEstimates(),
    )
}
"""Every asset of the graph, each after its inputs, but for chunks that questions are made of."""

CHUNKS_FIRST = (Documents.name, Chunks.name)


def stages_in_order(experiment: Experiment) -> Mapping[str, Stage]:
    """Return every asset of the graph, each after its inputs in this experiment.

    Where no questions are made of chunks, queries and labels are read before anything is cut:
    mistakes in them are told at once.
    """
    first = CHUNKS_FIRST if experiment.questions is not None else ()
    return {**{name: STAGES[name] for name in first}, **STAGES}
