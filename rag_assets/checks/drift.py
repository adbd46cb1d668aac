"""Drift: whether queries, corpus and answers still are as they were in the anchor evaluation.

Scores of a retriever at two moments are compared only where they are of one scale: configured
alike, and given by the same model. Answers are compared whatever model or prompt wrote them: their
length means the same. No label is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_text import Language, is_refusal, words
from rag_assets.answers.stage import answers_key
from rag_assets.checks.check import (
    MAX_EXAMPLES,
    NO_ANCHOR,
    Check,
    CheckInputs,
    CheckOutcome,
    State,
    anchor_of,
    of_evaluation,
)
from rag_assets.engine.failures import failures_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.failed_queries import read_by
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.reasons import changes
from rag_assets.plain_text import markdown
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.retrieval.base import ORIGINAL, BaseRetriever, EmbeddingRetriever
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.statistics.score_drift import (
    FEWEST,
    BestScores,
    Limits,
    ScoreDrift,
    Stability,
    stability,
    too_few,
)
from rag_assets.statistics.units import Floats
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.parquet_files import read_parquet

MODEL = "model_sha256"


def query_sets_of(experiment: Experiment, retriever: str) -> list[str]:
    """Return the query sets that a retriever searches for, itself or through others, sorted."""
    names = read_by(experiment, retriever)
    base = [name for name in names if isinstance(experiment.retrievers[name], BaseRetriever)]
    return sorted({experiment.query_set_of(name) for name in base})


def difference(
    experiment: Experiment, retriever: str, top_k: int, old: State, new: State
) -> str | None:
    """Return what makes the scores of a cell another quantity; None: they can be compared.

    The contents of files (documents, queries, variants, vectors) may differ: that is what drifts.

    Args:
        experiment: the experiment as it is now.
        retriever: whose scores are compared.
        top_k: of the cell.
        old: one moment.
        new: the later one.
    """
    if not old.configuration:
        return "the anchor does not say how it was configured"
    was, now = (_configured(experiment, retriever, state.configuration) for state in (old, new))
    differences = [change.text.removeprefix("retrievers.") for change in changes(was, now)]
    if not differences and _weights(experiment, retriever, top_k, old) != _weights(
        experiment, retriever, top_k, new
    ):
        differences = ["other weights of a model"]
    return (
        f"configured otherwise than in the anchor: {', '.join(differences)}"
        if differences
        else None
    )


def _configured(
    experiment: Experiment, retriever: str, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the part of a configuration on which the scores of a retriever depend."""
    query_sets = query_sets_of(experiment, retriever)
    wanted = {
        "retrievers": read_by(experiment, retriever),
        "chunking": experiment.chunkings_of(retriever),
        "query_sets": query_sets,
    }
    parts: dict[str, Any] = {"judge": configuration.get("judge")}
    for part, names in wanted.items():
        block = configuration.get(part, {})
        parts[part] = {name: block[name] for name in names if name in block}
    # What a search holds by now is what drifts.
    parts["retrievers"] = {
        name: {key: value for key, value in options.items() if key != "revision"}
        for name, options in parts["retrievers"].items()
    }
    chunkings = (experiment.chunkings[name] for name in wanted["chunking"])
    asks = any(text.asks for one in chunkings for text in one.index_texts or ())
    asks |= any(isinstance(experiment.query_sets.get(n), PromptedQuerySet) for n in query_sets)
    if asks:
        parts |= {name: configuration.get(name) for name in ("llm", "llms")}
    return parts


def _weights(experiment: Experiment, retriever: str, top_k: int, state: State) -> list[object]:
    return list(_weights_of(experiment, retriever, top_k, state))


def _weights_of(
    experiment: Experiment, retriever: str, top_k: int, state: State
) -> Iterator[object]:
    for name in read_by(experiment, retriever):
        keys = [run_key(experiment, name, top_k)]
        if isinstance(experiment.retrievers[name], BaseRetriever):
            keys.append(index_key(experiment.family(name), name))
        for key in keys:
            artifact = state.artifact(key)
            yield artifact.manifest.config.get(MODEL) if artifact is not None else None


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
    config = experiment.config.checks.drift
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
    problems = []
    what, stability, limits = quantity(experiment, retriever), drift.stability, drift.limits
    if drift.shifted:
        problems.append(
            f"the {what} is distributed otherwise than in the anchor: "
            f"PSI {stability.psi:.2f}, above {max(limits.psi, stability.chance):.2f}"
        )
    if drift.strayed:
        problems.append(
            f"{drift.far_share:.0%} of the queries are far from the corpus (in the anchor "
            f"{drift.old_far_share:.0%}), above {limits.far_share:.0%}: "
            f"the {what} is below {drift.threshold:.4g}"
        )
    return problems


def far_queries(experiment: Experiment, retriever: str, drift: ScoreDrift) -> list[tuple[str, str]]:
    """Return id and sentence of each query that is far from the corpus, the farthest first."""
    what = quantity(experiment, retriever)
    return [
        (name, "nothing was retrieved" if score is None else f"the {what} is {score:.4g}")
        for name, score in drift.far
    ]


def _found(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome | None:
    if inputs.anchor == NO_ANCHOR:
        return None
    experiment = inputs.pipeline.experiment
    retriever, top_k = key["retriever"], int(key["top_k"])
    drift = drift_of(experiment, retriever, top_k, inputs.anchor, inputs.now)
    if isinstance(drift, str):
        return CheckOutcome([], not_checked=drift)
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
        lines = [f"- query '{markdown(name)}': {text}" for name, text in far[:MAX_EXAMPLES]]
        rest = len(far) - MAX_EXAMPLES
        shown["far_queries"] = "\n".join(lines + ([f"- and {rest} more"] if rest > 0 else []))
    problems = sentences(experiment, retriever, drift)
    finite = {name: number for name, number in numbers.items() if np.isfinite(number)}
    return CheckOutcome(problems, experiment.config.checks.drift.severity, finite, shown=shown)


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


class AnswerDrift(NamedTuple):
    """What became of one property of an answerer's answers.

    Attributes:
        numbers: shown at the check.
        stability: its distributions before and now.
        text: what changed, as a phrase.
    """

    numbers: Mapping[str, float]
    stability: Stability
    text: str

    def problem(self, limit: float) -> str | None:
        """Return a sentence where the index is above its limit and above chance."""
        allowed = max(limit, self.stability.chance)
        if self.stability.psi <= allowed:
            return None
        return f"{self.text}: PSI {self.stability.psi:.2f}, above {allowed:.2f}"


def answer_drift(
    pipeline: Pipeline, key: ArtifactKey, old: State | str, new: State
) -> list[AnswerDrift] | str:
    """Compare how often an answerer refuses, and how long its other answers are, with an anchor.

    Args:
        pipeline: of the experiment.
        key: of the answers.
        old: the anchor; or why there is none.
        new: what is compared with it.

    Returns:
        The refusals, and the lengths unless there are too few; or why they are not compared.
    """
    if isinstance(old, str):
        return old
    language = pipeline.experiment.config.answer_metrics.language
    before, after = (_answer_lengths(one, key, language) for one in (old, new))
    if before is None or after is None:
        return f"the anchor has no answers of {key['answerer']} that can be read"
    if (fewest := min(before.size, after.size)) < FEWEST:
        return f"{fewest} answers are too few, {FEWEST} are needed"
    was, now = (float(np.isnan(lengths).mean()) for lengths in (before, after))
    index = stability(*(np.where(np.isnan(one), np.nan, 0.0) for one in (before, after)))
    numbers = {"psi_of_refusals": index.psi, "refused": now, "refused_in_anchor": was}
    text = f"{now:.0%} of the answers refuse (in the anchor {was:.0%})"
    drifts = [AnswerDrift(numbers, index, text)]
    before, after = (one[~np.isnan(one)] for one in (before, after))
    if min(before.size, after.size) >= FEWEST:
        index = stability(before, after)
        was, now = float(np.median(before)), float(np.median(after))
        text = f"answers have {now:g} words in the median (in the anchor {was:g})"
        drifts.append(AnswerDrift({"psi_of_length": index.psi}, index, text))
    return drifts


def _answer_lengths(state: State, key: ArtifactKey, language: Language) -> Floats | None:
    """Return the words of each answer that did not fail, NaN where it refuses."""
    artifact = state.artifact(key)
    if artifact is None:
        return None
    try:
        table = artifact.table().select(["answer", "abstained"])
    except (OSError, pa.ArrowException):
        return None
    answers = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lengths = [
        np.nan if abstained or is_refusal(answer) else len(words(answer, language))
        for answer, abstained in answers
        if answer is not None
    ]
    return np.array(lengths, dtype=np.float64)


def _answers_found(
    inputs: CheckInputs, key: ArtifactKey, artifact: Artifact
) -> CheckOutcome | None:
    if inputs.anchor == NO_ANCHOR:
        return None
    drifts = answer_drift(inputs.pipeline, key, inputs.anchor, inputs.now)
    if isinstance(drifts, str):
        return CheckOutcome([], not_checked=drifts)
    config = inputs.pipeline.experiment.config.checks.drift
    numbers = {name: number for drift in drifts for name, number in drift.numbers.items()}
    problems = [text for drift in drifts if (text := drift.problem(config.psi))]
    return CheckOutcome(problems, config.severity, numbers)


ANSWER_DRIFT = Check(
    NAME,
    "Answers are as long, and refuse as often, as in the anchor. No result: no anchor is pinned "
    "(`rag-assets anchor PATH`).",
    _answers_found,
)


FAR = "far_query"
"""The kind of finding that names a query, where too many are far from the corpus."""


def drift_findings(pipeline: Pipeline, evaluation: Evaluation) -> tuple[pa.Table, list[str]]:
    """Compare the best scores and the answers of an evaluation with those of the anchor.

    Of each retriever the cell at the cut-off of the primary metric is looked at: the first hit is
    the same in every other one.

    Returns:
        Table of :data:`rag_assets.labels.health.findings.FINDINGS`, and which retrievers and
        answerers were not compared, with the reason.
    """
    experiment = pipeline.experiment
    anchor = anchor_of(pipeline)
    if isinstance(anchor, str):
        return findings_table([]), [f"drift: {anchor}"]
    now = of_evaluation(pipeline, evaluation)
    top_k = experiment.primary.cutoff or max(experiment.top_k)
    findings: list[Finding] = []
    skipped: dict[str, list[str]] = defaultdict(list)
    for name in experiment.retrievers:
        if now.artifact(run_key(experiment, name, top_k)) is None:
            skipped["the last evaluation has no such cell"].append(name)
            continue
        drift = drift_of(experiment, name, top_k, anchor, now)
        if isinstance(drift, str):
            skipped[drift].append(name)
        else:
            findings += _findings(pipeline, name, drift)
    notes = [f"drift of {', '.join(names)}: {reason}" for reason, names in skipped.items()]
    config = experiment.config.checks.drift
    for name in experiment.answer_cells:
        drifts = answer_drift(pipeline, answers_key(name), anchor, now)
        if isinstance(drifts, str):
            notes.append(f"drift of {name}: {drifts}")
            continue
        for text in filter(None, (one.problem(config.psi) for one in drifts)):
            findings.append(Finding(config.severity, NAME, f"{name}: {text}"))
    return findings_table(findings), notes


def _findings(pipeline: Pipeline, retriever: str, drift: ScoreDrift) -> Iterator[Finding]:
    experiment = pipeline.experiment
    severity = experiment.config.checks.drift.severity
    for problem in sentences(experiment, retriever, drift):
        yield Finding(severity, NAME, f"{retriever}: {problem}")
    if drift.strayed:
        for query_id, text in far_queries(experiment, retriever, drift):
            yield Finding(WARNING, FAR, f"{retriever}: {text}", query_id=query_id)
