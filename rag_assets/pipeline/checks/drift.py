"""Drift: whether queries and corpus still fit each other as they did in the anchor evaluation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.failures import failures_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.checks.check import MOST_EXAMPLES, Check, Found
from rag_assets.pipeline.checks.comparable_scores import difference, query_sets_of
from rag_assets.pipeline.checks.reads import Reads
from rag_assets.pipeline.checks.states import NO_ANCHOR, State
from rag_assets.plain_text import markdown
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.statistics.score_drift import FEWEST, BestScores, Limits, ScoreDrift, too_few
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.parquet_files import read_parquet

NAME = "drift"


def drift_of(
    experiment: Experiment, retriever: str, top_k: int, old: State | str, new: State
) -> ScoreDrift | str:
    """Compare the best scores of a cell with those of an anchor.

    Args:
        experiment: the experiment as it is now.
        retriever: of the cell.
        top_k: of the cell.
        old: the anchor; or why there is none.
        new: what is compared with it; it has the cell.

    Returns:
        The two distributions; or why they are not compared, as a phrase.
    """
    if isinstance(old, str):
        return old
    key = run_key(experiment, retriever, top_k)
    before, after = _best_scores(old, key), _best_scores(new, key)
    if before is None or after is None:
        return f"the anchor has no cell {retriever} at {top_k} that can be read"
    changed = difference(experiment, retriever, top_k, old, new)
    if changed is not None:
        return changed
    if too_few(before, after):
        fewest = min(len(before.query_ids), len(after.query_ids))
        return f"{fewest} queries are too few, {FEWEST} are needed"
    return ScoreDrift(before, after, limits_of(experiment, retriever))


def limits_of(experiment: Experiment, retriever: str) -> Limits:
    """Return what is no drift, as the experiment has it."""
    config = experiment.checks.drift
    below = config.far_below.get(retriever)
    return Limits(config.psi, config.far_share, config.far_quantile, below)


def quantity(experiment: Experiment, retriever: str) -> str:
    """Return what the best scores of a retriever are, in words.

    Scores of several variants are similarities only where the largest one is taken.
    """
    config = experiment.retrievers[retriever]
    if isinstance(config, EmbeddingRetriever) and (
        config.query_set == ORIGINAL or config.variants == "max"
    ):
        return "similarity of the nearest chunk"
    return "score of the best hit"


def sentences(experiment: Experiment, retriever: str, drift: ScoreDrift) -> list[str]:
    """Return a sentence for each way in which the best scores drifted; none: they did not."""
    found = []
    what, stability, limits = quantity(experiment, retriever), drift.stability, drift.limits
    if drift.shifted:
        found.append(
            f"the {what} is distributed otherwise than in the anchor: "
            f"PSI {stability.psi:.2f}, above {max(limits.psi, stability.chance):.2f}"
        )
    if drift.strayed:
        found.append(
            f"{drift.far_share:.0%} of the queries are far from the corpus (in the anchor "
            f"{drift.old_far_share:.0%}), above {limits.far_share:.0%}: "
            f"the {what} is below {drift.threshold:.4g}"
        )
    return found


def far_queries(experiment: Experiment, retriever: str, drift: ScoreDrift) -> list[tuple[str, str]]:
    """Return id and sentence of each query that is far from the corpus, the farthest first."""
    what = quantity(experiment, retriever)
    return [
        (name, "nothing was retrieved" if score is None else f"the {what} is {score:.4g}")
        for name, score in drift.far
    ]


def _found(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    if reads.anchor == NO_ANCHOR:
        return None
    experiment = reads.pipeline.experiment
    retriever, top_k = key["retriever"], int(key["top_k"])
    drift = drift_of(experiment, retriever, top_k, reads.anchor, reads.now)
    if isinstance(drift, str):
        return Found([], not_checked=drift)
    numbers = {
        "psi": drift.stability.psi,
        "psi_by_chance": drift.stability.chance,
        "far_share": drift.far_share,
        "far_share_of_anchor": drift.old_far_share,
        "far_below": drift.threshold,
        "queries": len(drift.new.query_ids),
    }
    shown = {"distribution": _distribution(experiment, retriever, drift)}
    far = far_queries(experiment, retriever, drift)
    if far:
        lines = [f"- query '{markdown(name)}': {text}" for name, text in far[:MOST_EXAMPLES]]
        rest = len(far) - MOST_EXAMPLES
        shown["far_queries"] = "\n".join(lines + ([f"- and {rest} more"] if rest > 0 else []))
    problems = sentences(experiment, retriever, drift)
    finite = {name: number for name, number in numbers.items() if np.isfinite(number)}
    return Found(problems, experiment.checks.drift.severity, finite, shown=shown)


def _distribution(experiment: Experiment, retriever: str, drift: ScoreDrift) -> str:
    """Return the shares of the queries in each bin as a table."""
    edges, old, new, psi = (getattr(drift.stability, n) for n in ("edges", "old", "new", "psi"))
    names = [*(f"up to {edge:.4g}" for edge in edges)]
    names.append(f"above {edges[-1]:.4g}" if len(edges) else "any")
    names += ["nothing retrieved"] * (len(old) - len(names))
    sets = ", ".join(query_sets_of(experiment, retriever))
    title = f"{quantity(experiment, retriever)}{f', query set {sets}' if sets else ''}"
    rows = [
        f"| {name} | {before:.0%} | {after:.0%} |"
        for name, before, after in zip(names, old / old.sum(), new / new.sum(), strict=True)
    ]
    head = f"| {title} | anchor | now |\n|---|---|---|"
    return "\n".join([head, *rows, f"\nPSI {psi:.3f}"])


def _best_scores(state: State, key: ArtifactKey) -> BestScores | None:
    run, queries = state.artifact(key), state.artifact(QUERIES_KEY)
    if run is None or queries is None:
        return None
    try:
        ranking = read_parquet(run.file, ["query_id", "rank", "score"])
    except (OSError, pa.ArrowException):
        return None
    first = ranking.filter(pc.equal(ranking["rank"], 1))
    scores = dict(zip(first["query_id"].to_pylist(), first["score"].to_pylist(), strict=True))
    failed = failures_of(run.manifest)
    ids = [one for one in queries.table()["query_id"].to_pylist() if one not in failed]
    return BestScores(ids, np.array([scores.get(one, np.nan) for one in ids], float))


DRIFT = Check(
    NAME,
    "The best scores of the queries are distributed as in the anchor, and few queries are far "
    "from the corpus. No result: no anchor is pinned (`rag-assets anchor PATH`).",
    _found,
)
