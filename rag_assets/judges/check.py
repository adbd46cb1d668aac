"""``judge check``: trials of a judge and its agreement with people; and ``judge export``.

Of answers people's labels are those of ``answer_labels``; a blank or failed answer is wrong without
being asked about, and has no part here. Of passages they are labels of passages, else the qrels: a
document is as relevant as its best passage, and what people did not judge has no part.

A check is kept beside the evaluations. It holds for one judge, by its fingerprint: of another model
or prompt there is another one. A file of verdicts has the replies behind them, as ``type:
recorded`` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.hosts import circular_uses
from rag_assets.judges.answer_labels import claim_id, needs_person, read_claim_labels
from rag_assets.judges.base import (
    CORRECTNESS,
    HIGHEST,
    OF_CLAIMS,
    RELEVANCE,
    VERDICTS,
    ClaimItem,
    CorrectnessItem,
    Item,
    Kind,
    RelevanceItem,
    item_digest,
)
from rag_assets.judges.calibration import LABEL, VERDICT
from rag_assets.judges.calibration_stage import (
    ANSWER_LABELS_KEY,
    cutoff_of,
    judged_passages,
    judged_tables,
)
from rag_assets.judges.registry import RecordedJudge
from rag_assets.judges.trials import (
    POSITIVE,
    RIGHT,
    SAME_TWICE,
    UNCHANGED,
    Texts,
    drawn,
    result,
    result_row,
    trials,
    wrong_answers,
    wrong_passages,
)
from rag_assets.judges.verdicts_stage import (
    asked_model,
    current_verdicts,
    judge_fingerprint,
    judged_items,
    question_texts,
    relevance_items,
    verdicts_key,
)
from rag_assets.labels.pool import units_in
from rag_assets.labels.sampling.label_sample import valid_judgments
from rag_assets.llm.completions import ModelSession
from rag_assets.llm.replies import reply_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.schemas import ANSWER_VERDICTS, CLAIM_VERDICTS, RELEVANCE_VERDICTS, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.statistics.agreement import agreement
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import read_sealed, sealed_json

JUDGE_CHECKS_DIR = "judge_checks"
_SCHEMAS = (RELEVANCE_VERDICTS, ANSWER_VERDICTS, CLAIM_VERDICTS)
_PLACES = {schema.name: schema.key for schema in _SCHEMAS}
_UNTRIED = result_row("changed texts", (0, 0, 0), None, "claims are compared with people alone")

Row = dict[str, Any]

Place = tuple[str, str]
"""A question, and a document."""


@dataclass(frozen=True)
class Rules:
    """How a judge is tried.

    Attributes:
        items: texts a trial, at most.
        at_least: the share of changes that has to be noticed.
        seed: of the draw of the texts.
    """

    items: int = 10
    at_least: float = 0.8
    seed: int = 0


def judges_to_check(pipeline: Pipeline, name: str | None) -> list[str]:
    """Return the judge of that name, or all.

    Raises:
        UsageError: there is none.
    """
    judges = pipeline.experiment.judges
    if not judges:
        raise UsageError(f"{pipeline.experiment.source} has no `judges`")
    if name is not None and name not in judges:
        raise UsageError(f"--judge: unknown judge {allowed_names(name, judges)}")
    return list(judges) if name is None else [name]


def check_judge(pipeline: Pipeline, judge: str, rules: Rules) -> Row:
    """Try a judge, keep what came of it, and return that as it is kept and printed.

    Returns:
        ``judge``, ``at`` (ISO 8601), ``rules``, ``kinds`` (see :func:`_check_kind`), ``circles``
        (sentences about what its own model made of what it judges), and ``passed``: no trial failed
        and no model judges its own work.

    Raises:
        NotEvaluated: its verdicts are not up to date, or nothing could be tried.
        BudgetReached: the limits allow no more; replies are stored.
        ModelUnavailable: its model does not answer; likewise.
        StoreError: the result cannot be written.
    """
    queries = pipeline.artifact(QUERIES_KEY).table()
    keys = list(current_verdicts(pipeline, judge))
    kinds = [
        _check_kind(pipeline, key, kind, rules)
        for key in keys
        for kind in VERDICTS[key.asset]
        if judge in pipeline.experiment.judges_of(kind)
    ]
    uses_of_keys = (circular_uses(pipeline.experiment, key, queries) for key in keys)
    circles = list(dict.fromkeys(circle for uses in uses_of_keys for circle in uses))
    was_tried = (
        kind["youden"] is not None or any(row["passed"] is not None for row in kind["trials"])
        for kind in kinds
    )
    if not circles and not any(was_tried):
        raise NotEvaluated(f"judge {judge} could not be tested: no labels of people, and no texts")
    check = {
        "judge": judge,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rules": asdict(rules),
        "kinds": kinds,
        "circles": circles,
        "passed": not circles and not any(kind["failed"] for kind in kinds),
    }
    text = sealed_json(check)
    pipeline.settings.write_record(_file(pipeline.root, judge), text, lambda _: text)
    return check


def stored_check(root: Path, judge: str) -> Row | None:
    """Return what is kept of a judge, as :func:`check_judge` gave it; None: nothing."""
    try:
        return read_sealed(_file(root, judge).read_bytes())
    except (OSError, ValueError):
        return None  # none, or damaged: it is made again


def _file(root: Path, judge: str) -> Path:
    return root / JUDGE_CHECKS_DIR / f"{judge}.json"


def _check_kind(pipeline: Pipeline, key: ArtifactKey, kind: Kind, rules: Rules) -> Row:
    """Return what came of a judge in one kind of verdicts.

    Returns:
        ``kind``, ``fingerprint`` of the judge, ``trials`` (rows of
        :func:`rag_assets.judges.trials.result`), the changes that were ``noticed`` and ``tried``
        (the mutation score is the share of both), ``agreement`` with people (None: they said
        nothing), ``youden`` (sensitivity + specificity - 1), and the names of what ``failed``.
    """
    results = [_UNTRIED] if kind in OF_CLAIMS else _results(pipeline, key, kind, rules)
    level = pipeline.experiment.statistics.confidence
    agreement, youden = _agreement(_labelled(pipeline, key, kind), level)
    changes = [row for row in results if row["name"] not in UNCHANGED]
    failed = [row["name"] for row in results if row["passed"] is False]
    failed += ["agreement with people"] if youden is not None and youden <= 0 else []
    return {
        "kind": kind,
        "fingerprint": judge_fingerprint(pipeline.artifact(key).manifest),
        "trials": results,
        "noticed": sum(row["noticed"] for row in changes),
        "tried": sum(row["tried"] for row in changes),
        "agreement": agreement,
        "youden": youden,
        "failed": failed,
    }


def _results(pipeline: Pipeline, key: ArtifactKey, kind: Kind, rules: Rules) -> list[Row]:
    judge = pipeline.experiment.judges[key["judge"]]
    texts = _passages(pipeline, key) if kind == RELEVANCE else _answers(pipeline)
    planned = trials(kind, Texts(*(drawn(items, rules.seed) for items in texts)), rules.items)
    if isinstance(judge, RecordedJudge):
        reason = "recorded verdicts are of no other texts"
        untried = (trial._replace(pairs=(), reason=reason) for trial in planned)
        return [result(kind, trial, {}, {}, rules.at_least) for trial in untried]
    once = list(dict.fromkeys(item for trial in planned for pair in trial.pairs for item in pair))
    same = (trial for trial in planned if trial.name == SAME_TWICE)
    twice = list(dict.fromkeys(first for trial in same for first, _ in trial.pairs))
    session = ModelSession(partial(pipeline.completions, f"trials of {key['judge']}"))
    verdicts = dict(zip(once, judge.verdicts(once, session), strict=True))
    again = dict(zip(twice, judge.verdicts(twice, session, again=True), strict=True))
    results = [result(kind, trial, verdicts, again, rules.at_least) for trial in planned]
    grades = pipeline.artifact(key).table()["grade"].drop_null() if kind == RELEVANCE else ()
    if len(grades) and pc.max(grades).as_py() < POSITIVE[RELEVANCE]:
        reason, n = f"it finds none of {len(grades)} passages relevant", len(grades)
        results.insert(0, result_row(RIGHT, (n, n, 0), passed=False, reason=reason))
    return results


def _passages(pipeline: Pipeline, key: ArtifactKey) -> Texts:
    """Return passages that the judge itself finds relevant, and some that cannot be."""
    items, verdicts = relevance_items(pipeline, key), pipeline.artifact(key).table()
    units = zip(units_in(verdicts), verdicts["grade"].to_pylist(), strict=True)
    relevant = {unit for unit, grade in units if grade is not None and grade >= POSITIVE[RELEVANCE]}
    right: dict[str, RelevanceItem] = {}
    for item in items:
        if item.place in relevant:
            right.setdefault(item.query_id, item)
    return Texts(list(right.values()), wrong_passages(items))


def _answers(pipeline: Pipeline) -> Texts:
    """Return answers that people call correct, else those of the data; and some that are not."""
    texts = question_texts(pipeline)
    facts = pipeline.artifact(QUERY_FACTS_KEY).table()
    of_data = {
        query_id: CorrectnessItem(query_id, texts[query_id], golds[0], tuple(golds))
        for query_id, golds in column_values(facts, "query_id", "answers")
        if golds and golds[0].strip()
    }
    right = dict(of_data)
    labels = pipeline.current(ANSWER_LABELS_KEY) if pipeline.experiment.has_answer_labels else None
    for row in reversed(labels.table().to_pylist() if labels is not None else []):
        if row["correct"] and row["answer"].strip() and row["query_id"] in of_data:
            right[row["query_id"]] = of_data[row["query_id"]]._replace(text=row["answer"])
    return Texts(list(right.values()), wrong_answers(of_data.values()))


Labelled = tuple[Sequence[tuple[float, float | None]], int, int]
"""People's grades with those of a judge, how many grades there are, and the lowest positive one."""


def _labelled(pipeline: Pipeline, key: ArtifactKey, kind: Kind) -> Labelled:
    if kind in OF_CLAIMS:
        return _labelled_claims(pipeline, key, kind)
    return (_labelled_passages if kind == RELEVANCE else _labelled_answers)(pipeline, key)


def _labelled_claims(pipeline: Pipeline, key: ArtifactKey, kind: Kind) -> Labelled:
    labels = read_claim_labels(pipeline.experiment.claim_labels)
    rows = column_values(pipeline.artifact(key).table(), *CLAIM_VERDICTS.key, "grade")
    verdicts = {row[:-1]: row[-1] for row in rows}
    pairs = [
        (label.grade, verdicts[item.place])
        for item in judged_items(pipeline, key)
        if isinstance(item, ClaimItem) and item.kind == kind
        if (label := labels.get(claim_id(item))) is not None and label.grade is not None
    ]
    return pairs, HIGHEST[kind] + 1, HIGHEST[kind]


def _labelled_answers(pipeline: Pipeline, key: ArtifactKey) -> Labelled:
    if not pipeline.experiment.has_answer_labels:
        return (), 2, 1
    pairs = {
        (row["query_id"], row["answer"]): (row[LABEL], row[VERDICT])
        for table in judged_tables(pipeline, key["judge"]).values()
        for row in table.to_pylist()
        if needs_person(row["answer"]) and row[LABEL] is not None
    }
    return list(pairs.values()), 2, 1


def _labelled_passages(pipeline: Pipeline, key: ArtifactKey) -> Labelled:
    """Return what is said of documents: by people, labels of passages if there are, else qrels."""
    experiment, positive = pipeline.experiment, POSITIVE[RELEVANCE]
    grades: list[tuple[Place, int | None]] = [
        ((line.query_id, line.document_id), line.grade)
        for file in experiment.passage_label_files.values()
        for line in valid_judgments(file, pipeline.artifact(DOCUMENTS_KEY).table())[0]
        if line.grade is not None and not line.is_hint
    ]
    if not grades and experiment.has_qrels:
        grades = _document_grades(pipeline, QRELS_KEY)
    labels, verdicts = _highest(grades), _highest(_document_grades(pipeline, key))
    # Where people only say 0 and 1, the judge's 2 and 3 count as 1.
    is_graded = max(filter(None, labels.values()), default=0) > 1
    highest, lowest = (HIGHEST[RELEVANCE], positive) if is_graded else (1, 1)
    pairs = [
        (
            min(max(labels[place] or 0, 0), highest),
            grade if is_graded or grade is None else int(grade >= positive),
        )
        for place, grade in verdicts.items()
        if place in labels
    ]
    return pairs, highest + 1, lowest


def _document_grades(pipeline: Pipeline, key: ArtifactKey) -> list[tuple[Place, int | None]]:
    rows = column_values(pipeline.artifact(key).table(), "query_id", "document_id", "grade")
    return [((query_id, document_id), grade) for query_id, document_id, grade in rows]


def _highest(grades: Iterable[tuple[Place, int | None]]) -> dict[Place, int | None]:
    """Return the highest grade of each place; None where no passage of it has one."""
    highest: dict[Place, int | None] = {}
    for place, grade in grades:
        of_place = [value for value in (highest.get(place), grade) if value is not None]
        highest[place] = max(of_place, default=None)
    return highest


def _agreement(labelled: Labelled, level: float) -> tuple[Row | None, float | None]:
    """Return how far they agree (None without a label), and Youden's J.

    J is sensitivity + specificity - 1: 0 for who guesses or says one thing only; None where people
    call all positive, or all negative.
    """
    pairs, n_grades, positive = labelled
    if not pairs:
        return None, None
    labels, verdicts = np.array(pairs, np.float64).T  # None is NaN
    beside = agreement(labels, verdicts, n_grades=n_grades, positive_from=positive, level=level)
    shares = {name: getattr(beside, name) for name in ("agreed", "sensitivity", "specificity")}
    plain = {name: share._asdict() for name, share in shares.items()}
    row = {**beside._asdict(), "table": beside.table.tolist(), **plain}
    sensitivity, specificity = beside.sensitivity.value, beside.specificity.value
    if sensitivity is None or specificity is None:
        return row, None
    return row, sensitivity + specificity - 1


def export_verdicts(pipeline: Pipeline, judge: str, out: Path, retriever: str | None = None) -> int:
    """Write the verdicts of a judge that are up to date; return how many.

    Of a retriever they are labels of its units, which ``rag-assets score`` reads beside its run.

    Raises:
        UsageError: there is no such judge or retriever, or its verdicts are of a file.
        NotEvaluated: its verdicts are not up to date.
        StoreError: the file cannot be written.
    """
    judges_to_check(pipeline, judge)
    options = pipeline.experiment.judges[judge]
    rows: Iterable[Mapping[str, Any]]
    if retriever is not None:
        rows = _labels(pipeline, judge, retriever)
    elif isinstance(options, RecordedJudge):
        raise UsageError(f"--judge: the verdicts of '{judge}' are recorded: {options.path}")
    else:
        rows = (row for key in current_verdicts(pipeline, judge) for row in _rows(pipeline, key))
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_text(out, "".join(f"{line}\n" for line in lines))
    return len(lines)


def _labels(pipeline: Pipeline, judge: str, retriever: str) -> Iterator[Mapping[str, Any]]:
    """Yield a label for each unit of a retriever; a question that lacks a verdict has none."""
    experiment, key = pipeline.experiment, verdicts_key(RELEVANCE, judge)
    allowed = experiment.retrievers if key in [*current_verdicts(pipeline, judge)] else ()
    if retriever not in allowed:
        raise UsageError(f"--retriever: unknown {allowed_names(retriever, allowed)}")
    verdicts = pipeline.artifact(key).table()
    grades = dict(zip(units_in(verdicts), verdicts["grade"].to_pylist(), strict=True))
    table = judged_passages(pipeline, cutoff_of(experiment, judge))[retriever]
    units = [*zip(units_in(table), table["unit_id"].to_pylist(), strict=True)]
    lacking = {place.query_id for place, _ in units if grades.get(place) is None}
    for place, unit_id in units:
        if place.query_id not in lacking:
            yield {"query_id": place.query_id, "doc_id": unit_id, "relevance": grades[place]}


def _rows(pipeline: Pipeline, key: ArtifactKey) -> Iterator[Mapping[str, Any]]:
    items = judged_items(pipeline, key)
    replies, names = _replies(pipeline, key, items), _PLACES[key.asset]
    rows = pipeline.artifact(key).table().to_pylist()
    verdicts = {tuple(map(row.get, names)): row for row in rows}
    for item in items:
        row = verdicts[item.place]
        if item.kind == CORRECTNESS:
            verdict = {"correct": None if row["correct"] is None else bool(row["correct"])}
        else:
            verdict = {name: row[name] for name in ("text", "grade") if name in row}
        problem = {"problem": row["problem"]} if row["problem"] is not None else {}
        reply = {"reply": replies[row["reply"]]} if row["reply"] in replies else {}
        place = dict(zip(names, item.place, strict=True))
        yield {**place, **verdict, **problem, **reply, "digest": item_digest(item)}


def _replies(pipeline: Pipeline, key: ArtifactKey, items: Sequence[Item]) -> Mapping[str, str]:
    """Return the raw replies about items by their keys; none where no model was asked."""
    judge_and_model = asked_model(pipeline.experiment, key)
    if judge_and_model is None:
        return {}
    judge, identity = judge_and_model[0], judge_and_model[1].identity()
    requests = [one for again in (False, True) for one in judge.requests(items, again=again)]
    pairs = zip(requests, pipeline.replies.get(identity, requests), strict=True)
    return {reply_key(identity, request): reply.text for request, reply in pairs if reply}
