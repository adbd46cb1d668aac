"""All stages, in the order of the graph; which of their partitions some cells need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rag_assets.answers.contexts_stage import AnswerContexts, PassageLists, Passages
from rag_assets.answers.stage import AnswerMetricsStage, Answers
from rag_assets.answers.summary_stage import AnswerComparisons, AnswerSummary
from rag_assets.answers.waterfall_stage import AnswerWaterfall
from rag_assets.chunking.stage import Chunks, IndexTexts
from rag_assets.engine.stage import Stage
from rag_assets.evaluation.answerability_stage import Answerability
from rag_assets.evaluation.attributions_stage import Attributions, cutoffs_read
from rag_assets.evaluation.contexts_stage import RetrieverContexts
from rag_assets.evaluation.likeness_stage import ListSimilarities, Overlaps
from rag_assets.evaluation.metrics_stage import Leaderboard, Metrics, MetricsSummary
from rag_assets.evaluation.online_log_stage import OnlineLog
from rag_assets.evaluation.query_facts_stage import QueryFacts
from rag_assets.evaluation.relevant_units_stage import DevRelevantUnits, RelevantUnits
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.calibration_stage import (
    AnswerLabels,
    CalibratedClaims,
    CalibratedDifferences,
    CalibratedMeans,
    CalibratedRankings,
)
from rag_assets.judges.verdicts_stage import AnswerVerdicts, ClaimVerdicts, RelevanceVerdicts
from rag_assets.labels.questions_stage import GeneratedQuestionsStage
from rag_assets.labels.sampling.sample_stage import SampledEstimates, SampledLabels, SampledPassages
from rag_assets.pipeline.selection import Selection
from rag_assets.query_sets.stage import QuerySetAnswers, QuerySets
from rag_assets.retrieval.dense.stage import EmbeddingIndexes, EmbeddingQueries, EmbeddingRuns
from rag_assets.retrieval.external.stage import ExternalHits, ExternalRankings, ExternalRuns
from rag_assets.retrieval.fusion.stage import FusedRuns, SecondFusedRuns, Tuning
from rag_assets.retrieval.lexical.stage import (
    LexicalIndexes,
    LexicalQueries,
    LexicalRuns,
    TermCounts,
)
from rag_assets.retrieval.reranking.stage import RerankedRuns, SecondRerankedRuns
from rag_assets.retrieval.runs_stage import chunk_keys, run_key
from rag_assets.retrieval.search_steps_stage import QueryFilters, RecencyFactors
from rag_assets.sources.stage import Documents, Qrels, Queries
from rag_assets.statistics.stage import Comparisons, Intervals
from rag_assets.store.artifacts import ArtifactKey

_LEXICAL_RUNS = LexicalRuns()
_EMBEDDING_RUNS = EmbeddingRuns()
_EXTERNAL_RUNS = ExternalRuns()
_BASE_RUNS = {stage.family: stage for stage in (_LEXICAL_RUNS, _EMBEDDING_RUNS, _EXTERNAL_RUNS)}
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
        RecencyFactors(),
        Chunks(),
        IndexTexts(),
        QuerySetAnswers(),
        QuerySets(),
        TermCounts(),
        LexicalIndexes(),
        EmbeddingIndexes(),
        QueryFilters(),
        LexicalQueries(),
        EmbeddingQueries(),
        ExternalRankings(),
        ExternalHits(),
        RelevantUnits(),
        RetrieverContexts(),
        _LEXICAL_RUNS,
        _EMBEDDING_RUNS,
        _EXTERNAL_RUNS,
        DevRelevantUnits(),
        Tuning(_BASE_RUNS),
        _FUSED_RUNS,
        _RERANKED_RUNS,
        _SECOND_FUSED_RUNS,
        _SECOND_RERANKED_RUNS,
        ListSimilarities(),
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
        ClaimVerdicts(),
        AnswerLabels(),
        CalibratedMeans(),
        CalibratedDifferences(),
        CalibratedRankings(),
        CalibratedClaims(),
        SampledPassages(),
        SampledLabels(),
        SampledEstimates(),
        OnlineLog(),
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


Partitions = dict[str, list[ArtifactKey]]
"""Asset -> some of its partitions, in the order of the graph."""


def required_partitions(experiment: Experiment, selection: Selection) -> Partitions:
    """Return the partitions that the selected cells need."""
    retrievers, cutoffs = selection.retrievers, selection.top_k
    is_whole = set(retrievers) == set(experiment.retrievers)
    ends = [
        key
        for key in _keys(experiment, ListSimilarities.name)
        if key["retriever"] in retrievers and int(key["top_k"]) in cutoffs
    ]
    ends += _answered(experiment, retrievers, cutoffs, is_whole=is_whole)
    if is_whole and set(experiment.top_k) <= set(cutoffs):
        # Sheets and the page of labels read `query_facts` before there is a label, and nothing
        # else does then.
        ends += _keys(experiment, "query_facts", "relevance_verdicts", "answer_verdicts")
        ends += _keys(experiment, "calibrated_means", "calibrated_differences")
        ends += _keys(experiment, "calibrated_rankings", "calibrated_claims")
        ends += _keys(experiment, "sampled_passages", "sampled_labels", "sampled_estimates")
        ends += _keys(experiment, "online_log")
    if not experiment.has_qrels:
        ends += [run_key(experiment, name, k) for name in retrievers for k in cutoffs]
        # What the runs are made of leaves out the chunks of a search that is not ours, which
        # everything that shows a passage reads.
        ends += [key for name in retrievers for key in chunk_keys(experiment, name)]
        ends += [key for key in _keys(experiment, "overlaps") if int(key["top_k"]) in cutoffs]
        return _behind(experiment, ends)
    ends += [ArtifactKey.of("leaderboard"), ArtifactKey.of("answerability")]
    ends += _keys(experiment, "comparisons")
    ends += [ArtifactKey.of("intervals", retriever=name) for name in retrievers]
    # Only where there are cells at the cut-offs that attributions read: one cell that was asked
    # for alone must not cost another.
    if set(cutoffs_read(experiment)) <= set(cutoffs):
        attributed = _keys(experiment, "attributions")
        ends += [key for key in attributed if key["retriever"] in retrievers]
    return _behind(experiment, [*ends, *_means(retrievers, cutoffs)])


def _means(retrievers: Sequence[str], cutoffs: Sequence[int]) -> list[ArtifactKey]:
    cells = [(name, k) for name in retrievers for k in cutoffs]
    metrics = [ArtifactKey.of("metrics", retriever=name, top_k=k) for name, k in cells]
    return metrics + [ArtifactKey.of("metrics_summary", retriever=name) for name in retrievers]


def _keys(experiment: Experiment, *assets: str) -> list[ArtifactKey]:
    return [key for asset in assets for key in STAGES[asset].keys(experiment)]


def _behind(experiment: Experiment, ends: list[ArtifactKey]) -> Partitions:
    required: set[ArtifactKey] = set()
    while ends:
        key = ends.pop()
        if key not in required:
            required.add(key)
            inputs = STAGES[key.asset].inputs(experiment, key)
            ends += [item.key for item in inputs if not item.optional]
    assets = {key.asset for key in required}
    stages = {n: of for n, of in stages_in_order(experiment).items() if n in assets}
    return {n: [k for k in of.keys(experiment) if k in required] for n, of in stages.items()}


def _answered(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Collection[int], *, is_whole: bool
) -> list[ArtifactKey]:
    """Return what is measured of the answerers of some cells, and what sums up those there are.

    An answerer that reads no retriever belongs to all of them together.
    """
    answerers = []
    for name, cell in experiment.answer_cells.items():
        retriever = experiment.answerers[cell.name].retriever
        is_chosen = is_whole if retriever is None else retriever in retrievers
        if is_chosen and (cell.top_k is None or cell.top_k in cutoffs):
            answerers.append(name)
    keys = [ArtifactKey.of("answer_metrics", answerer=name) for name in answerers]
    # Of retrievers by which nothing is answered too: Dagster shows partitions that are missing.
    if set(experiment.passage_cutoffs) <= set(cutoffs):
        passages = _keys(experiment, "passages", "passage_lists")
        keys += [key for key in passages if key["retriever"] in retrievers]
    classed = _keys(experiment, "answer_waterfall")
    keys += [key for key in classed if key["answerer"] in answerers]
    return keys + (_keys(experiment, "answer_summary", "answer_comparisons") if answerers else [])
