"""Which partitions some cells need: what they are made of, back to the source files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rag_assets.evaluation.attributions_stage import cutoffs_read
from rag_assets.evaluation.list_similarities_stage import SIMILARITIES
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES, stages_in_order
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey

Partitions = dict[str, list[ArtifactKey]]
"""Asset -> some of its partitions, in the order of the graph."""


def required_partitions(experiment: Experiment, selection: Selection) -> Partitions:
    """Return the partitions that the selected cells need."""
    retrievers, cutoffs = selection.retrievers, selection.top_k
    is_whole = set(retrievers) == set(experiment.retrievers)
    ends = [
        key
        for asset in SIMILARITIES
        for key in _keys(experiment, asset)
        if key["retriever"] in retrievers and int(key["top_k"]) in cutoffs
    ]
    ends += _answered(experiment, retrievers, cutoffs, is_whole=is_whole)
    if is_whole and set(experiment.top_k) <= set(cutoffs):
        # Sheets and the page of labels read `query_facts` before there is a label, and nothing
        # else does then.
        ends += _keys(experiment, "query_facts", "relevance_verdicts", "answer_verdicts")
        ends += _keys(experiment, "calibrated_means", "calibrated_differences")
        ends += _keys(experiment, "calibrated_rankings")
        ends += _keys(experiment, "sampled_passages", "sampled_labels", "sampled_estimates")
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


def partitions_of_rows(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Sequence[int]
) -> Partitions:
    """Return what the means of some retrievers need, without labels their runs; nothing else."""
    if experiment.has_qrels:
        return _behind(experiment, _means(retrievers, cutoffs))
    runs = [run_key(experiment, name, k) for name in retrievers for k in cutoffs]
    return _behind(experiment, runs)


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
    stages = stages_in_order(experiment).items()
    chosen = {name: [k for k in stage.keys(experiment) if k in required] for name, stage in stages}
    return {name: keys for name, keys in chosen.items() if keys}


def _answered(
    experiment: Experiment,
    retrievers: Sequence[str],
    cutoffs: Collection[int],
    *,
    is_whole: bool,
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
