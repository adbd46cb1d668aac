"""The checks of each asset's partitions: labels, runs, metrics and comparisons.

Near-duplicates take longer than all else and are left to ``rag-assets validate``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa

from rag_assets.answers.metrics_stage import metric_names
from rag_assets.checks.check import WARNING, Check, CheckInputs, CheckOutcome, CheckResult
from rag_assets.checks.drift import ANSWER_DRIFT, DRIFT
from rag_assets.engine.failures import failures_of
from rag_assets.engine.stage import Stage
from rag_assets.errors import DataError
from rag_assets.evaluation.table_checks import (
    disordered,
    incomplete,
    out_of_bounds,
    tied_at_cut,
    unanswered,
    unknown_ids,
)
from rag_assets.judges.check import stored_check
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.labels.health.duplicates import duplicate_documents, duplicate_queries
from rag_assets.labels.health.findings import ERROR, Finding, reading_problems, rows
from rag_assets.labels.health.unusable_labels import dangling_ids, queries_without_relevant
from rag_assets.pipeline.circular_models import circular_uses, question_circles
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.query_sets.stage import SERVED_MODELS
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.sources.problems import Problems
from rag_assets.statistics.comparisons import is_tested, regressions
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _independent(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome | None:
    experiment = inputs.pipeline.experiment
    if not isinstance(experiment.judges[key["judge"]], LlmJudge):
        return None  # there is no model, or nobody knows which
    return CheckOutcome(circular_uses(experiment, key, inputs.queries))


def _unbiased(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    return CheckOutcome(question_circles(inputs.pipeline.experiment), WARNING)


QUESTIONS_UNBIASED = (
    Check(
        "questions_are_independent",
        "No retriever uses the model that wrote the questions.",
        _unbiased,
    ),
)

INDEPENDENT = (
    Check(
        "judge_is_independent",
        "The judge's model did not rerank, rewrite, answer, or write questions.",
        _independent,
    ),
)


def _proven(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    check = stored_check(inputs.pipeline.root, key["judge"])
    own = judge_fingerprint(artifact.manifest)
    kinds = [kind for kind in check["kinds"] if kind["fingerprint"] == own] if check else []
    if not kinds:
        reason = "the judge was not tried as it is now; `rag-assets judge check` does it"
        return CheckOutcome([], not_checked=reason)
    problems = [f"it fails: {name}" for kind in kinds for name in kind["failed"]]
    n_tried = sum(kind["tried"] for kind in kinds)
    numbers = (
        {"mutation_score": sum(kind["noticed"] for kind in kinds) / n_tried} if n_tried else {}
    )
    return CheckOutcome(problems, WARNING, numbers)


PROVEN = (
    Check("judge_is_proven", "`rag-assets judge check` tried the judge, and it passed.", _proven),
)


def _one_model(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome | None:
    names = artifact.manifest.facts.get(SERVED_MODELS, [])
    if not names:
        return None  # a local model, or a server that gives no name
    problems = [
        f"The server answered by the model {after}, and before by {before}: name the one that is "
        "meant, with its version, as `model`"
        for before, after in pairwise(names)
    ]
    return CheckOutcome(problems, WARNING)


SERVED = (Check("one_model_answered", "One model answered under the name asked for.", _one_model),)


def _no_answer_failed(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    answers = artifact.table().select(["query_id", "error"]).to_pylist()
    failed = [row for row in answers if row["error"] is not None]
    problems = [f"{row['query_id']}: {row['error']}" for row in failed]
    return CheckOutcome(problems, WARNING, {"failed": len(problems)})


def _answer_bounds(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    return CheckOutcome(
        out_of_bounds(artifact.table(), list(metric_names(inputs.pipeline.experiment)))
    )


ANSWERS = (
    Check("questions_answered", "Every question has an answer; none failed.", _no_answer_failed),
)
ANSWER_METRICS = (
    Check("metrics_in_bounds", "Every metric lies between 0 and 1.", _answer_bounds, True),
)


def outcome_of(tables: Iterable[pa.Table]) -> CheckOutcome:
    """Return findings as what a check found: errors first, an error if there is one."""
    findings = [finding for table in tables for finding in rows(table)]
    findings.sort(key=lambda finding: finding.severity != ERROR)
    errors = sum(finding.severity == ERROR for finding in findings)
    counts = {"errors": errors, "warnings": len(findings) - errors}
    severity = ERROR if errors else WARNING
    return CheckOutcome([_sentence(finding) for finding in findings], severity, counts)


def _sentence(finding: Finding) -> str:
    place = ":".join(str(part) for part in (finding.file, finding.line) if part is not None)
    named = [finding.query_id and f"query '{finding.query_id}'"]
    named += [finding.document_id and f"document '{finding.document_id}'"]
    subject = ", ".join(part for part in (place, *named) if part)
    return f"{finding.check}: {subject}: {finding.message}" if subject else finding.message


def unreadable_outcome(pipeline: Pipeline, asset: str, error: DataError) -> CheckOutcome:
    """Return every problem of files of which reading stopped at the first, ``error``."""
    dataset = pipeline.experiment.dataset
    problems = Problems(collect=True)
    with problems:
        if asset == "qrels":
            inputs = CheckInputs(pipeline)
            pipeline.experiment.read_qrels(inputs.documents, inputs.queries, problems)
        else:
            read = {"documents": dataset.read_documents, "queries": dataset.read_queries}[asset]
            read(problems)
    return outcome_of([reading_problems(problems.collected or [error])])


def _documents(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    return outcome_of([duplicate_documents(artifact.table(["document_id", "text"]))])


def _queries(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    return CheckOutcome([], numbers={"queries": artifact.manifest.rows})


def _qrels(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    qrels, queries = artifact.table(), inputs.queries
    keeps = inputs.pipeline.experiment.keeps_unknown
    return outcome_of(
        [
            dangling_ids(qrels, inputs.document_ids, queries, keeps_unknown=keeps),
            queries_without_relevant(qrels, queries),
            duplicate_queries(queries, qrels),
        ]
    )


LABEL_HEALTH = "label_health"
DOCUMENTS = Check(
    LABEL_HEALTH, "The documents can be read, and no two are the same.", _documents, True
)
QUERIES = Check(LABEL_HEALTH, "The queries can be read.", _queries, True)
QRELS = Check(
    LABEL_HEALTH,
    "Every judgment can be used: its query, document and quote are there. A warning: queries "
    "without a relevant judgment, or that ask the same.",
    _qrels,
    True,
)


TIED_SHARE = 0.1
"""So many of the queries may have ties at the cut before it is a warning."""


def _bounds(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    measures = list(inputs.pipeline.experiment.measures_at(int(key["top_k"])))
    metrics = artifact.table()
    is_empty = all(metrics[name].null_count == len(metrics) for name in measures)
    nothing = "no query has a value of any metric" if is_empty else None
    return CheckOutcome(out_of_bounds(metrics, measures), not_checked=nothing)


def _complete(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    return CheckOutcome(incomplete(artifact.table(), inputs.queries), WARNING)


def _ties(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    metrics = artifact.table()
    if metrics["ties_at_cut"].null_count == len(metrics):
        return CheckOutcome(
            [], not_checked="what scored as much below the cut is not known of any query"
        )
    problems = tied_at_cut(metrics)
    share = len(problems) / len(metrics)
    return CheckOutcome(problems, WARNING, {"tied_share": share}, passes=share <= TIED_SHARE)


def _no_regression(
    inputs: CheckInputs, key: ArtifactKey, artifact: Artifact
) -> CheckOutcome | None:
    experiment = inputs.pipeline.experiment
    if len(experiment.retrievers) < 2:
        return None
    comparisons = artifact.table()
    if not is_tested(comparisons, experiment.baseline):
        reason = f"no retriever could be tested against the baseline {experiment.baseline}"
        return CheckOutcome([], not_checked=reason)
    problems = regressions(comparisons, experiment.baseline)
    return CheckOutcome(
        problems, experiment.config.checks.regression, {"regressions": len(problems)}
    )


METRICS = (
    Check(
        "metrics_in_bounds",
        "Metrics lie between 0 and 1; dcg above 0.",
        _bounds,
        True,
    ),
    Check("run_complete", "Every query has its metrics; the retriever failed on none.", _complete),
    Check(
        "ties_at_the_cut",
        f"The order of tied units decides the cut of at most {TIED_SHARE:.0%} of the queries.",
        _ties,
    ),
)
COMPARISONS = (
    Check(
        "no_regression",
        "No retriever is shown to be worse than the baseline by the paired test.",
        _no_regression,
    ),
)


def _answered(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    run, failures = artifact.table(), failures_of(artifact.manifest)
    problems = unanswered(run, inputs.queries, failures)
    return CheckOutcome(problems, WARNING, {"unanswered": len(problems), "failed": len(failures)})


def _ordered(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    run = artifact.table()
    return CheckOutcome(disordered(run), not_checked=_nothing(run))


def _known(inputs: CheckInputs, key: ArtifactKey, artifact: Artifact) -> CheckOutcome:
    judge = inputs.pipeline.experiment.judge
    units = inputs.units(key["retriever"])
    run = artifact.table()
    return CheckOutcome(unknown_ids(run, inputs.queries, units, judge), not_checked=_nothing(run))


def _nothing(run: pa.Table) -> str | None:
    """Return why a run cannot be looked at; None: it can."""
    return None if run.num_rows else "nothing was retrieved for any query"


RUNS = (
    Check("queries_answered", "Something was retrieved for every query.", _answered),
    Check("ranks_and_scores", "Ranks are 1 to n and scores do not rise.", _ordered, True),
    Check("ids_exist", "Every query, chunk and unit is one of the experiment.", _known, True),
    DRIFT,
)


_OF_ASSET: dict[str, tuple[Check, ...]] = {
    "documents": (DOCUMENTS,),
    "queries": (QUERIES,),
    "qrels": (QRELS,),
    "generated_questions": (*SERVED, *QUESTIONS_UNBIASED),
    "query_set_answers": SERVED,
    "index_texts": SERVED,
    "metrics": METRICS,
    "comparisons": COMPARISONS,
    "answers": (*ANSWERS, *SERVED, ANSWER_DRIFT),
    "answer_metrics": ANSWER_METRICS,
    "relevance_verdicts": (*SERVED, *INDEPENDENT, *PROVEN),
    "answer_verdicts": (*SERVED, *INDEPENDENT, *PROVEN),
}


def checks_of(stage: Stage) -> tuple[Check, ...]:
    """Return the checks of a stage's partitions; most stages have none."""
    return RUNS if isinstance(stage, RunsStage) else _OF_ASSET.get(stage.name, ())


def results_of(pipeline: Pipeline, stage: Stage, outcomes: Iterable[Outcome]) -> list[CheckResult]:
    """Check partitions that are up to date; a check that nobody asked for has no result.

    Raises:
        MissingArtifact: what a check reads is not in the store.
    """
    inputs = CheckInputs(pipeline)
    results = [
        (check, outcome.key, check.find(inputs, outcome.key, outcome.artifact))
        for outcome in outcomes
        for check in checks_of(stage)
    ]
    return [CheckResult(check, key, one) for check, key, one in results if one is not None]


def results_of_unreadable(pipeline: Pipeline, stage: Stage, error: Exception) -> list[CheckResult]:
    """Return what is wrong with source files that could not be read, all of it."""
    checks = [check for check in checks_of(stage) if check.name == LABEL_HEALTH]
    if not isinstance(error, DataError):
        return []
    problems = [unreadable_outcome(pipeline, stage.name, error) for _ in checks]
    key = ArtifactKey.of(stage.name)
    return [CheckResult(check, key, one) for check, one in zip(checks, problems, strict=True)]
