"""Which partitions some cells need: what they are made of, back to the source files."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.evaluation.attributions_stage import cutoffs_read
from rag_assets.evaluation.list_similarities_stage import SIMILARITIES
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES, stages_in_order
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey


def required_partitions(
    experiment: Experiment, selection: Selection
) -> dict[str, list[ArtifactKey]]:
    """Return, by asset in graph order, the partitions that the selected cells need."""
    return _behind(experiment, _ends(experiment, selection.retrievers, selection.top_k))


def partitions_of_rows(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Sequence[int]
) -> dict[str, list[ArtifactKey]]:
    """Return what the means of some retrievers need, without labels their runs; nothing else."""
    if not experiment.has_qrels:
        runs = [run_key(experiment, name, k) for name in retrievers for k in cutoffs]
        return _behind(experiment, runs)
    cells = [
        ArtifactKey.of("metrics", retriever=name, top_k=k) for name in retrievers for k in cutoffs
    ]
    means = [ArtifactKey.of("metrics_summary", retriever=name) for name in retrievers]
    return _behind(experiment, cells + means)


def _behind(experiment: Experiment, ends: list[ArtifactKey]) -> dict[str, list[ArtifactKey]]:
    required: set[ArtifactKey] = set()
    while ends:
        key = ends.pop()
        if key in required:
            continue
        required.add(key)
        inputs = STAGES[key.asset].inputs(experiment, key)
        ends += [item.key for item in inputs if not item.optional]
    stages = stages_in_order(experiment)
    chosen = {name: stage.keys(experiment) for name, stage in stages.items()}
    return {
        name: [key for key in keys if key in required]
        for name, keys in chosen.items()
        if any(key in required for key in keys)
    }


def _ends(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Sequence[int]
) -> list[ArtifactKey]:
    """Return what nothing else needs: the metrics, or without labels the runs themselves.

    Attributions too, where there are cells at the cut-offs that they read: one cell that was
    asked for alone must not cost another.
    """
    cells = [(retriever, k) for retriever in retrievers for k in cutoffs]
    alike = [
        key
        for asset in SIMILARITIES
        for key in STAGES[asset].keys(experiment)
        if (key["retriever"], int(key["top_k"])) in cells
    ]
    alike += _answered(experiment, retrievers, cutoffs)
    alike += _judged(experiment, retrievers, cutoffs)
    if not experiment.has_qrels:
        runs = [run_key(experiment, retriever, k) for retriever, k in cells]
        # What the runs are made of leaves out the chunks of a search that is not ours, which
        # everything that shows a passage reads.
        texts = [key for retriever in retrievers for key in chunk_keys(experiment, retriever)]
        pairs = STAGES["overlaps"].keys(experiment)
        return runs + texts + alike + [key for key in pairs if int(key["top_k"]) in cutoffs]
    ends = [ArtifactKey.of("leaderboard"), ArtifactKey.of("answerability"), *alike]
    ends += STAGES["comparisons"].keys(experiment)
    for asset in ("metrics_summary", "intervals"):
        ends += [ArtifactKey.of(asset, retriever=r) for r in retrievers]
    if set(cutoffs_read(experiment)) <= set(cutoffs):
        attributed = STAGES["attributions"].keys(experiment)
        ends += [key for key in attributed if key["retriever"] in retrievers]
    return ends + [ArtifactKey.of("metrics", retriever=r, top_k=k) for r, k in cells]


def _answered(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Sequence[int]
) -> list[ArtifactKey]:
    """Return what is measured of the answerers of some cells, and what sums up those there are.

    An answerer that reads no retriever belongs to all of them together.
    """
    every = set(retrievers) == set(experiment.retrievers)
    found = []
    for name, cell in experiment.answer_cells.items():
        retriever = experiment.answerers[cell.name].retriever
        chosen = every if retriever is None else retriever in retrievers
        if chosen and (cell.top_k is None or cell.top_k in cutoffs):
            found.append(ArtifactKey.of("answer_metrics", answerer=name))
    chosen_keys = {key["answerer"] for key in found}
    # Of retrievers by which nothing is answered too: Dagster shows partitions that are missing.
    found += [
        key
        for asset in ("passages", "passage_lists")
        for key in STAGES[asset].keys(experiment)
        if key["retriever"] in retrievers and set(experiment.passage_cutoffs) <= set(cutoffs)
    ]
    classed = STAGES["answer_waterfall"].keys(experiment)
    found += [key for key in classed if key["answerer"] in chosen_keys]
    sums = ("answer_summary", "answer_comparisons") if chosen_keys else ()
    return found + [key for asset in sums for key in STAGES[asset].keys(experiment)]


def _judged(
    experiment: Experiment, retrievers: Sequence[str], cutoffs: Sequence[int]
) -> list[ArtifactKey]:
    """Return verdicts, what calibrates them, and samples of labels: they are of all cells."""
    every = set(retrievers) == set(experiment.retrievers)
    if not every or not set(experiment.top_k) <= set(cutoffs):
        return []
    said = ("relevance_verdicts", "answer_verdicts")
    calibrated = ("calibrated_means", "calibrated_differences", "calibrated_rankings")
    sampled = ("sampled_passages", "sampled_labels", "sampled_estimates")
    # Sheets and the page of labels read it before there is a label, and nothing else does then.
    every_asset = ("query_facts", *said, *calibrated, *sampled)
    return [key for asset in every_asset for key in STAGES[asset].keys(experiment)]
