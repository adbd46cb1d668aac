"""Drift: whether queries, corpus and answers still are as they were in the anchor evaluation.

Scores of a retriever at two moments are compared only where they are of one scale: configured
alike, and given by the same model. Answers are compared whatever model or prompt wrote them: their
length means the same. No label is needed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_text import Language, is_refusal, words
from rag_assets.answers.stage import answers_key
from rag_assets.checks.check import (
    NO_ANCHOR,
    Artifacts,
    Check,
    CheckInputs,
    CheckOutcome,
    Partition,
    of_evaluation,
)
from rag_assets.checks.score_drift import FEWEST, BestScores, ScoreDrift, stability
from rag_assets.errors import StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.findings import WARNING, Finding
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.reasons import changes
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.statistics.units import Floats
from rag_assets.store.artifacts import Artifact, ArtifactKey

NAME = "drift"
FAR = "far_query"
"""The kind of finding that names a query, where too many are far from the corpus."""

_SOURCES = ("documents", "queries")
_CONTENTS = ("failed", "files", "path", "search_revision")
"""What a recipe says of the contents of files and searches: these are what drifts."""


def _difference(
    experiment: Experiment, run: ArtifactKey, old: Artifacts, new: Artifacts
) -> str | None:
    """Return what makes the scores of a cell another quantity; None: they can be compared.

    All that the cell is made from must have the same recipe, but for contents.
    """
    made_from: dict[ArtifactKey, None] = {}
    waiting, reasons = [run], dict[str, None]()
    while waiting:
        key = waiting.pop()
        if key not in made_from and key.asset not in _SOURCES:
            made_from[key] = None
            waiting += [item.key for item in STAGES[key.asset].inputs(experiment, key)]
    for key in made_from:
        was, now = (_recipe(artifacts(key)) for artifacts in (old, new))
        if now is not None and was is None:
            reasons[f"{key} is new"] = None
        elif now is not None and was is not None:
            name = "".join(value for _, value in key.partition[:1])
            reasons |= {f"{name}.{change.text}": None for change in changes(was, now)}
    return f"configured differently than in the anchor: {', '.join(reasons)}" if reasons else None


def _recipe(artifact: Artifact | None) -> dict[str, Any] | None:
    if artifact is None:
        return None
    config = artifact.manifest.config
    return {name: value for name, value in config.items() if name not in _CONTENTS}


def _score_drift(inputs: CheckInputs, retriever: str, top_k: int) -> ScoreDrift | str:
    """Compare the best scores of a cell with those of the anchor; or say why it cannot be."""
    experiment, old, new = inputs.pipeline.experiment, inputs.anchor, inputs.now
    if isinstance(old, str):
        return old
    key = run_key(experiment, retriever, top_k)
    before, after = _best_scores(old, key), _best_scores(new, key)
    if before is None or after is None:
        return f"the anchor has no cell {retriever} at {top_k} that can be read"
    if changed := _difference(experiment, key, old, new):
        return changed
    if (fewest := min(len(before.query_ids), len(after.query_ids))) < FEWEST:
        return f"{fewest} queries are too few, {FEWEST} are needed"
    config = experiment.config.checks.drift
    return ScoreDrift(before, after, config, config.far_below.get(retriever))


def _best_scores(artifacts: Artifacts, key: ArtifactKey) -> BestScores | None:
    run, queries = artifacts(key), artifacts(QUERIES_KEY)
    ranking = _rows(run, ["query_id", "rank", "score"])
    if run is None or queries is None or ranking is None:
        return None
    first = ranking.filter(pc.equal(ranking["rank"], 1))
    scores = dict(zip(first["query_id"].to_pylist(), first["score"].to_pylist(), strict=True))
    failed = run.manifest.failures
    ids = [name for name in queries.table()["query_id"].to_pylist() if name not in failed]
    return BestScores(ids, np.array([scores.get(name, np.nan) for name in ids], float))


def _quantity(experiment: Experiment, retriever: str) -> str:
    """Return what the best scores of a retriever are, in words.

    Scores of several variants are similarities only where the largest one is taken.
    """
    config = experiment.retrievers[retriever]
    if isinstance(config, EmbeddingRetriever) and (
        config.query_set == ORIGINAL or config.variants == "max"
    ):
        return "similarity of the nearest chunk"
    return "score of the best hit"


def _sentences(what: str, drift: ScoreDrift) -> list[str]:
    """Return a sentence for each way in which the best scores drifted; none: they did not."""
    problems = []
    stability, limits = drift.stability, drift.limits
    if drift.shifted:
        problems.append(
            f"the {what} has another distribution than in the anchor: "
            f"PSI {stability.psi:.2f}, above {max(limits.psi, stability.chance):.2f}"
        )
    if drift.strayed:
        problems.append(
            f"{drift.far_share:.0%} of the queries are far from the corpus (in the anchor "
            f"{drift.old_far_share:.0%}), above {limits.far_share:.0%}: "
            f"the {what} is below {drift.threshold:.4g}"
        )
    return problems


def _scores(at: Partition) -> CheckOutcome | None:
    if at.inputs.anchor == NO_ANCHOR:
        return None
    experiment, retriever = at.experiment, at.key["retriever"]
    drift = _score_drift(at.inputs, retriever, int(at.key["top_k"]))
    if isinstance(drift, str):
        return CheckOutcome(not_checked=drift)
    what = _quantity(experiment, retriever)
    numbers = {
        "psi": drift.stability.psi,
        "psi_by_chance": drift.stability.chance,
        "far_share": drift.far_share,
        "far_share_of_anchor": drift.old_far_share,
        "far_below": drift.threshold,
        "queries": len(drift.new.query_ids),
    }
    far = [
        (name, "nothing was retrieved" if score is None else f"the {what} is {score:.4g}")
        for name, score in drift.far
    ]
    return CheckOutcome(
        _sentences(what, drift),
        experiment.config.checks.drift.severity,
        {name: number for name, number in numbers.items() if np.isfinite(number)},
        queries=far if drift.strayed else (),
    )


def _answers(at: Partition) -> CheckOutcome | None:
    """Compare how often an answerer refuses, and how long its other answers are."""
    old, language = at.inputs.anchor, at.experiment.config.answer_metrics.language
    if old == NO_ANCHOR:
        return None
    if isinstance(old, str):
        return CheckOutcome(not_checked=old)
    before, after = (_answer_lengths(state, at.key, language) for state in (old, at.inputs.now))
    if before is None or after is None:
        reason = f"the anchor has no answers of {at.key['answerer']} that can be read"
        return CheckOutcome(not_checked=reason)
    if (fewest := min(before.size, after.size)) < FEWEST:
        return CheckOutcome(not_checked=f"{fewest} answers are too few, {FEWEST} are needed")
    was, now = (float(np.isnan(lengths).mean()) for lengths in (before, after))
    index = stability(*(np.where(np.isnan(lengths), np.nan, 0.0) for lengths in (before, after)))
    numbers = {"psi_of_refusals": index.psi, "refused": now, "refused_in_anchor": was}
    compared = [(index, f"{now:.0%} of the answers refuse (in the anchor {was:.0%})")]
    before, after = (lengths[~np.isnan(lengths)] for lengths in (before, after))
    if min(before.size, after.size) >= FEWEST:
        index = stability(before, after)
        was, now = float(np.median(before)), float(np.median(after))
        numbers["psi_of_length"] = index.psi
        text = f"answers have {now:g} words in the median (in the anchor {was:g})"
        compared.append((index, text))
    config = at.experiment.config.checks.drift
    problems = [
        f"{text}: PSI {index.psi:.2f}, above {allowed:.2f}"
        for index, text in compared
        if index.psi > (allowed := max(config.psi, index.chance))
    ]
    return CheckOutcome(problems, config.severity, numbers)


def _rows(artifact: Artifact | None, columns: list[str]) -> pa.Table | None:
    """Return columns of an artifact; None: there is none, or its file cannot be read."""
    try:
        return artifact.table(columns) if artifact else None
    except StoreError:
        return None


def _answer_lengths(artifacts: Artifacts, key: ArtifactKey, language: Language) -> Floats | None:
    """Return the words of each answer that did not fail, NaN where it refuses."""
    if (answers := _rows(artifacts(key), ["answer", "abstained"])) is None:
        return None
    lengths = [
        np.nan
        if row["abstained"] or is_refusal(row["answer"])
        else len(words(row["answer"], language))
        for row in answers.to_pylist()
        if row["answer"] is not None
    ]
    return np.array(lengths, dtype=np.float64)


_NO_RESULT = "No result: no anchor is pinned (`rag-assets anchor PATH`)."

DRIFT = Check(
    NAME,
    "The best scores have the same distribution as in the anchor, and few queries are far from the "
    "corpus.",
    _scores,
    _NO_RESULT,
)
ANSWER_DRIFT = Check(
    NAME, "Length and refusals of the answers are as in the anchor.", _answers, _NO_RESULT
)


def drift_findings(pipeline: Pipeline, evaluation: Evaluation) -> tuple[list[Finding], list[str]]:
    """Compare the best scores and the answers of an evaluation with those of the anchor.

    Of each retriever the cell at the cut-off of the primary metric is looked at: the first hit is
    the same in every other one.

    Returns:
        What was found, and which retrievers and answerers were not compared, with the reason.
    """
    experiment = pipeline.experiment
    inputs = CheckInputs(pipeline, of_evaluation(pipeline, evaluation))
    if isinstance(inputs.anchor, str):
        return [], [f"drift: {inputs.anchor}"]
    top_k = experiment.primary.cutoff or max(experiment.top_k)
    cells = [(DRIFT, name, run_key(experiment, name, top_k)) for name in experiment.retrievers]
    cells += [(ANSWER_DRIFT, name, answers_key(name)) for name in experiment.answer_cells]
    findings: list[Finding] = []
    skipped: dict[str, list[str]] = defaultdict(list)
    for check, name, key in cells:
        artifact = inputs.now(key)
        outcome = check.find(Partition(inputs, key, artifact)) if artifact is not None else None
        if outcome is None:
            skipped["the last evaluation has no such cell"].append(name)
        elif outcome.not_checked is not None:
            skipped[outcome.not_checked].append(name)
        else:
            findings += [Finding(outcome.severity, NAME, f"{name}: {p}") for p in outcome.problems]
            findings += [Finding(WARNING, FAR, f"{name}: {t}", q) for q, t in outcome.queries]
    notes = [f"drift of {', '.join(names)}: {reason}" for reason, names in skipped.items()]
    return findings, notes
