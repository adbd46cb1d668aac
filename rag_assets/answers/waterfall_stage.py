"""``answer_waterfall[answerer]``: what became of each question, from corpus to answer.

Every question is in exactly one class.

The first that holds is the class:

1. ``failed``: there is no answer.
2. ``evidence_not_labelled``: no evidence of the question is labelled, and nothing says that it is
   unanswerable. ``answer_not_labelled``: evidence is, and no answer.
3. ``unanswerable_refused``, ``unanswerable_answered``.
4. ``right_with_evidence``: right, and the context holds all evidences; ``right_without_evidence``.
5. ``wrong_...`` or ``refused_...``, by the first stage that lost an evidence of the question:
   ``not_in_corpus``, ``no_chunk``, ``below_candidates`` (not retrieved), ``cut_at_k``,
   ``lost_in_fusion``, ``lost_in_reranking`` (the places of
   :mod:`rag_assets.evaluation.attributions_stage`), ``dropped_from_context`` (among the first k,
   and left out by order or budget), or ``with_evidence``: the context holds all of it.

A question with several evidences is lost where the first of them was, in the order of the stages.
An evidence that the context holds was not lost, whatever a retriever did. Where no retriever was
asked (no or a random context), what is not there is ``below_candidates``. Where the context is not
known, the last part of 4 and 5 is ``context_unknown``.

Right is EM = 1, or F1 above a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.answers.cases import ANSWER_METRICS, Contexts, Gold, evidence_ids_in
from rag_assets.answers.contexts_stage import (
    answerer_of,
    context_input,
    contexts_with_texts,
    passage_lists_key,
)
from rag_assets.answers.stage import answer_metrics_key, golds_in, metric_names
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests, DuckDBStage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.attributions_stage import FOUND, RankingsRead
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.schemas import ATTRIBUTIONS, Column, TableSchema
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey

RIGHT_F1 = 0.5
"""An answer with F1 above it is right: more of its words are common than not."""

STAGES = (
    "not_in_corpus",
    "no_chunk",
    "below_candidates",
    "cut_at_k",
    "lost_in_fusion",
    "lost_in_reranking",
    "dropped_from_context",
)
"""Where an evidence can be lost, the first stage first."""

WITH, WITHOUT, UNKNOWN = "with_evidence", "without_evidence", "context_unknown"

CLASSES = (
    "failed",
    "evidence_not_labelled",
    "answer_not_labelled",
    "unanswerable_refused",
    "unanswerable_answered",
    *(f"right_{context}" for context in (WITH, WITHOUT, UNKNOWN)),
    *(f"{kind}_{stage}" for kind in ("wrong", "refused") for stage in (*STAGES, WITH, UNKNOWN)),
)
"""All classes, in the order in which they are decided."""

WATERFALL = TableSchema(
    "answer_waterfall",
    "one question of one answerer: what became of it",
    ("query_id",),
    query_id=Column(pa.string(), "the question"),
    outcome=Column(pa.string(), "class of the question"),
    n_evidence=Column(pa.int32(), "labelled evidences"),
    n_in_context=Column(pa.int32(), "those that the context holds; null: not known", True),
)

NEEDED = ("answer_em", "answer_f1", "abstained")
"""Metrics by which an answer is right, wrong or refused."""


class AnswerWaterfall(DuckDBStage):
    """Where each question went wrong or right, from corpus to answer."""

    name = "answer_waterfall"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = WATERFALL
    row = "One question of one answerer: its class, from a failure to a right answer."
    group = "answers"

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        """Know the stages that rank, of all families."""
        self._rankings = RankingsRead(rankers)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        measured = experiment.has_qrels and set(NEEDED) <= set(metric_names(experiment))
        return [waterfall_key(key) for key in experiment.answer_cells if measured]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        inputs = [
            Input("metrics", answer_metrics_key(key["answerer"])),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            Input("qrels", QRELS_KEY),
            Input("documents", DOCUMENTS_KEY, "ids"),
            *context_input(experiment, key),
        ]
        retriever, _ = _ranked_by(experiment, key)
        if retriever is None:
            return inputs
        # A partition of one dimension can depend on cells by this one alone; what is read of them
        # are rankings.
        names = (retriever, *experiment.inputs(retriever))
        lists = [Input(f"run_{n}", passage_lists_key(name)) for n, name in enumerate(names)]
        return [*inputs, Input("relevant_units", relevant_units_key(retriever)), *lists]

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        """Yield the digests of rankings in place of those of what is handed over."""
        is_missing = False
        for role, digest in super().input_digests(context, key):
            if not role.startswith("run_"):
                yield role, digest
            elif digest is None:
                is_missing = True
        retriever, k = _ranked_by(context.experiment, key)
        if retriever is not None:
            read = self._rankings.digests(context, retriever, k)
            for number, (_, digest) in enumerate(read):
                yield f"ranking_{number}", None if is_missing else digest

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        retriever, k = _ranked_by(experiment, key)
        by = {"k": k, "family": experiment.retrievers[retriever].family} if retriever else {}
        return {"right": experiment.config.answer_metrics.right, "judge": experiment.judge, **by}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, contexts = context.experiment, contexts_with_texts(context, key)
        retriever, k = _ranked_by(experiment, key)
        attributions = None
        if retriever is not None:
            attributions = self._rankings.attributions(context, retriever, k)
        metrics = context.artifact(answer_metrics_key(key["answerer"])).table()
        right = experiment.config.answer_metrics.right
        golds = golds_in(context)
        return TableProduct(waterfall(metrics, golds, contexts, attributions, right_above=right))


def _ranked_by(experiment: Experiment, key: ArtifactKey) -> tuple[str | None, int]:
    """Return the retriever by whose ranks a context is (None: there is none), and its cut-off."""
    options, k = answerer_of(experiment, key)
    return (options.retriever if options.context is None else None), k


def waterfall_key(answerer: str) -> ArtifactKey:
    """Return the classes of the questions of one answerer at its cut-off."""
    return ArtifactKey.of("answer_waterfall", answerer=answerer)


def waterfall(
    metrics: pa.Table,
    golds: Iterable[Gold],
    contexts: Contexts | None,
    attributions: pa.Table | None,
    *,
    right_above: float = RIGHT_F1,
) -> pa.Table:
    """Return the class of every question, table of :data:`WATERFALL`, in the order of ``metrics``.

    ``metrics`` has the columns ``answer_em``, ``answer_f1`` and ``abstained``; ``contexts`` are
    those after order and budget, None: not known;
    ``attributions`` are those of the retriever at the cut-off of the answerer, None: no retriever
    was asked. An answer with F1 above ``right_above`` is right.
    """
    questions = {question.query_id: question for question in golds}
    places: dict[str, dict[str, str]] = {}
    if attributions is not None:
        for row in ATTRIBUTIONS.check(attributions).to_pylist():
            places.setdefault(row["query_id"], {})[row["evidence_id"]] = row["lost_at"]
    rows = []
    for row in ANSWER_METRICS.check(metrics).to_pylist():
        query_id = row["query_id"]
        evidence = questions[query_id].evidence
        ids = {item.evidence_id for item in evidence}
        held = None
        if contexts is not None:
            held = evidence_ids_in(evidence, [unit.place for unit in contexts.get(query_id, ())])
        stage = _stage(ids, held, places.get(query_id, {}))
        rows.append(
            {
                "query_id": query_id,
                "outcome": _outcome(row, len(ids), stage, right_above),
                "n_evidence": len(ids),
                "n_in_context": None if held is None else len(held),
            }
        )
    return WATERFALL.from_rows(rows)


def _stage(ids: set[str], held: set[str] | None, lost_at: Mapping[str, str]) -> str:
    """Return the first stage that lost one of the evidences, or what is known of the context."""
    if held is None:
        return UNKNOWN
    lost = {lost_at.get(evidence_id, "below_candidates") for evidence_id in ids - held}
    lost = {"dropped_from_context" if place == FOUND else place for place in lost}
    return min(lost, key=STAGES.index, default=WITH)


def _outcome(row: Mapping[str, Any], n_evidence: int, stage: str, right_above: float) -> str:
    if row["failed"]:
        return "failed"
    if row["answerable"] is False:
        return "unanswerable_refused" if row["abstained"] else "unanswerable_answered"
    if n_evidence == 0:
        return "evidence_not_labelled"
    if row["answer_em"] is None:
        return "answer_not_labelled"
    if row["answer_em"] == 1 or row["answer_f1"] > right_above:
        return f"right_{stage if stage in (WITH, UNKNOWN) else WITHOUT}"
    return f"{'refused' if row['abstained'] else 'wrong'}_{stage}"


def shares(table: pa.Table, weights: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Return a row for each class that has a question, in the order of :data:`CLASSES`.

    Returns:
        ``outcome``, ``n`` questions and their ``share`` of all by weight, each 1 without weights;
        shares sum to 1, but for rounding in the last digit.
    """
    by_class: dict[str, list[float]] = {}
    for row in table.select(["query_id", "outcome"]).to_pylist():
        weight = (weights or {}).get(row["query_id"], 1.0)
        by_class.setdefault(row["outcome"], []).append(weight)
    total = math.fsum(weight for weights in by_class.values() for weight in weights)
    return [
        {"outcome": name, "n": len(by_class[name]), "share": math.fsum(by_class[name]) / total}
        for name in CLASSES
        if name in by_class
    ]
