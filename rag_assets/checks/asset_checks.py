"""The checks of each asset's partitions: :data:`CHECKS` has a row for each.

Near-duplicates take longer than all else and are left to ``rag-assets validate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import pyarrow.compute as pc

from rag_assets.checks.check import Check, CheckInputs, CheckOutcome, CheckResult, Partition
from rag_assets.checks.drift import ANSWER_DRIFT, DRIFT
from rag_assets.engine.recipe import SERVED_MODELS
from rag_assets.engine.stage import Stage
from rag_assets.experiment.hosts import circular_uses, question_circles
from rag_assets.judges.check import stored_check
from rag_assets.judges.registry import LlmJudge
from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.labels.duplicates import duplicate_documents, duplicate_queries
from rag_assets.labels.findings import (
    ERROR,
    WARNING,
    Finding,
    dangling_ids,
    queries_without_relevant,
)
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.statistics.comparisons import is_tested, regressions

LABEL_HEALTH = "label_health"

TIED_SHARE = 0.1
"""Share of the queries that may have ties at the cut before it is a warning."""


def outcome_of(results: Iterable[Finding]) -> CheckOutcome:
    """Return findings as what a check found: errors first, an error if there is one."""
    findings = sorted(results, key=lambda finding: finding.severity != ERROR)
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


def _documents(at: Partition) -> CheckOutcome:
    return outcome_of(duplicate_documents(at.table))


def _qrels(at: Partition) -> CheckOutcome:
    qrels, queries = at.table, at.inputs.queries
    ids = at.inputs.pipeline.artifact(DOCUMENTS_KEY).table(["document_id"])
    return outcome_of(
        [
            *dangling_ids(qrels, ids, queries, keeps_unknown=at.experiment.keeps_unknown),
            *queries_without_relevant(qrels, queries),
            *duplicate_queries(queries, qrels),
        ]
    )


def _answered(at: Partition) -> CheckOutcome:
    failures = at.artifact.manifest.failures
    answered = set(at.table["query_id"].unique().to_pylist())
    problems = []
    for query_id in at.inputs.queries["query_id"].to_pylist():
        if query_id not in answered:
            problem = "the retriever failed" if query_id in failures else "nothing was retrieved"
            problems.append(f"query '{query_id}': {problem}")
    return CheckOutcome(problems, WARNING, {"unanswered": len(problems), "failed": len(failures)})


def _ties(at: Partition) -> CheckOutcome:
    metrics = at.table
    if metrics["ties_at_cut"].null_count == len(metrics):
        reason = "the scores below the cut are not known for any query"
        return CheckOutcome(not_checked=reason)
    tied = metrics.filter(pc.greater(metrics["ties_at_cut"], 0))
    problems = [
        f"query '{row['query_id']}': units below the cut with the score of the last one above it: "
        f"{row['ties_at_cut']}"
        for row in tied.select(["query_id", "ties_at_cut"]).to_pylist()
    ]
    share = len(problems) / len(metrics)
    shown = problems if share > TIED_SHARE else ()
    return CheckOutcome(shown, WARNING, {"tied_share": share})


def _no_regression(at: Partition) -> CheckOutcome | None:
    experiment, comparisons = at.experiment, at.table
    if len(experiment.retrievers) < 2:
        return None
    if not is_tested(comparisons, experiment.baseline):
        reason = f"no retriever could be tested against the baseline {experiment.baseline}"
        return CheckOutcome(not_checked=reason)
    problems = regressions(comparisons, experiment.baseline)
    severity = experiment.config.checks.regression
    return CheckOutcome(problems, severity, {"regressions": len(problems)})


def _no_answer_failed(at: Partition) -> CheckOutcome:
    answers = at.table.select(["query_id", "error"]).to_pylist()
    failed = [row for row in answers if row["error"] is not None]
    problems = [f"{row['query_id']}: {row['error']}" for row in failed]
    return CheckOutcome(problems, WARNING, {"failed": len(problems)})


def _one_model(at: Partition) -> CheckOutcome | None:
    names = at.artifact.manifest.facts.get(SERVED_MODELS, [])
    if not names:
        return None  # a local model, or a server that gives no name
    problems = [
        f"The server answered by the model {after}, and before by {before}: set `model` to "
        "the one you mean, with its version"
        for before, after in pairwise(names)
    ]
    return CheckOutcome(problems, WARNING)


def _independent(at: Partition) -> CheckOutcome | None:
    if not isinstance(at.experiment.judges[at.key["judge"]], LlmJudge):
        return None  # there is no model, or nobody knows which
    return CheckOutcome(circular_uses(at.experiment, at.key, at.inputs.queries))


def _proven(at: Partition) -> CheckOutcome:
    check = stored_check(at.inputs.pipeline.root, at.key["judge"])
    current = judge_fingerprint(at.artifact.manifest)
    kinds = [kind for kind in check["kinds"] if kind["fingerprint"] == current] if check else []
    if not kinds:
        reason = "the judge was not tested with its current options; run `rag-assets judge check`"
        return CheckOutcome(not_checked=reason)
    problems = [f"it fails: {name}" for kind in kinds for name in kind["failed"]]
    n_tried = sum(kind["tried"] for kind in kinds)
    n_noticed = sum(kind["noticed"] for kind in kinds)
    return CheckOutcome(
        problems, WARNING, {"mutation_score": n_noticed / n_tried} if n_tried else {}
    )


_SERVED = Check("one_model_answered", "One model answered, under the requested name.", _one_model)
_OF_VERDICTS = (
    _SERVED,
    Check(
        "judge_is_independent",
        "The judge's model has no other role: it did not rerank, rewrite, answer or write "
        "questions.",
        _independent,
    ),
    Check("judge_is_proven", "The judge passed `rag-assets judge check`.", _proven),
)
_OF_RUNS = (Check("queries_answered", "Something was retrieved for every query.", _answered), DRIFT)

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "documents": (Check(LABEL_HEALTH, "No two documents are the same.", _documents),),
    "qrels": (
        Check(
            LABEL_HEALTH,
            "Every judgment can be used: its query, document and quote are there. A warning: "
            "queries without a relevant judgment, or with the same text.",
            _qrels,
        ),
    ),
    "generated_questions": (
        _SERVED,
        Check(
            "questions_are_independent",
            "No retriever uses the model that wrote the questions.",
            lambda at: CheckOutcome(question_circles(at.experiment), WARNING),
        ),
    ),
    "query_set_answers": (_SERVED,),
    "index_texts": (_SERVED,),
    "metrics": (
        Check(
            "ties_at_the_cut",
            f"The order of tied units decides the cut of at most {TIED_SHARE:.0%} of the queries.",
            _ties,
        ),
    ),
    "comparisons": (
        Check(
            "no_regression",
            "No retriever is shown to be worse than the baseline by the paired test.",
            _no_regression,
        ),
    ),
    "answers": (
        Check(
            "questions_answered", "Every question has an answer; none failed.", _no_answer_failed
        ),
        _SERVED,
        ANSWER_DRIFT,
    ),
    "relevance_verdicts": _OF_VERDICTS,
    "answer_verdicts": _OF_VERDICTS,
    "claim_verdicts": _OF_VERDICTS[:2],
}


def checks_of(stage: Stage) -> tuple[Check, ...]:
    """Return the checks of a stage's partitions; most stages have none."""
    return _OF_RUNS if isinstance(stage, RunsStage) else CHECKS.get(stage.name, ())


def results_of(
    pipeline: Pipeline, stage: Stage, outcomes: Iterable[Outcome], more: Iterable[Check] = ()
) -> list[CheckResult]:
    """Check partitions that are up to date; a check that nobody asked for has no result.

    ``more`` are checks of the stage beside :func:`checks_of`.

    Raises:
        MissingArtifact: what a check reads is not in the store.
    """
    inputs, checks = CheckInputs(pipeline), (*checks_of(stage), *more)
    results = [
        (check, outcome.key, check.find(Partition(inputs, outcome.key, outcome.artifact)))
        for outcome in outcomes
        for check in checks
    ]
    return [CheckResult(check, key, result) for check, key, result in results if result is not None]
