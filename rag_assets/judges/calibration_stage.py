"""Verdicts beside labels of people: ``answer_labels`` and the four ``calibrated_...`` tables.

And what people are asked for them: which questions, answers and passages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import passage_lists_key, passages_key
from rag_assets.answers.stage import answers_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.evaluation.query_facts import TEST
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, QUERY_FACTS_KEY, counting_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.answer_labels import (
    claim_id,
    drawn_so_far,
    labelled_questions,
    read_answer_labels,
    read_claim_labels,
)
from rag_assets.judges.base import (
    CORRECTNESS,
    GROUNDEDNESS,
    OF_CLAIMS,
    RELEVANCE,
    ClaimItem,
    CorrectnessItem,
)
from rag_assets.judges.calibration import (
    CONTEXT_PRECISION,
    JUDGED_CORRECT,
    Row,
    Sample,
    difference_row,
    judged_answers,
    judged_claims,
    judged_metrics,
    judged_precisions,
    label_grades,
    labels_with_verdicts,
    mean_row,
    questions_with_golds,
    samples,
    verdict_grades,
    without_failed,
)
from rag_assets.judges.verdicts_stage import (
    ClaimVerdicts,
    claims_of,
    correctness_items,
    question_texts,
    verdicts_key,
)
from rag_assets.labels.pool import PooledUnit, label_pool
from rag_assets.labels.sampling.label_sample import valid_judgments
from rag_assets.schemas import (
    ANSWER_LABELS,
    CALIBRATED_DIFFERENCES,
    CALIBRATED_MEANS,
    CLAIM_VERDICTS,
    TableSchema,
    column_values,
)
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.statistics.units import Floats, splits_counted
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.canonical import permanent_hash

ANSWER_LABELS_KEY = ArtifactKey.of("answer_labels")

Tables = dict[tuple[str, str], pa.Table]
"""Answerer at its cut-off, metric -> table of :data:`rag_assets.judges.calibration.JUDGED`."""

Judged = tuple[Collection[str], Collection[str], Tables]
"""The questions that can be judged, those that people labelled, and tables of what is said."""

LABELS = "passage_labels"
"""Key of the YAML: the file of labels of whole questions."""

RATIOS = ("ndcg", "precision", "hit_rate", "mrr", "recall", "map")
"""Metrics of retrievers that labels of whole questions calibrate: each lies in [0, 1]."""


class AnswerLabels(Stage):
    """Labels of answers, from people."""

    name = "answer_labels"
    made_for = "calibrated_judges"
    schema = ANSWER_LABELS
    row = "One person's label for one answer to one question."
    group = "judges"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return []

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        file = context.experiment.answer_labels
        return {"file.answer_labels": context.file_digest(file)} if file is not None else {}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        file = context.experiment.answer_labels
        if file is None:
            raise TypeError(f"{context.experiment.name} has no file of answer labels")
        table = read_answer_labels(file)
        return TableProduct(table, {"n_cannot_tell": table["correct"].null_count})


class _Calibrated(Stage):
    """One partition a judge of answers: what it says of all answerers."""

    dimensions: ClassVar[tuple[str, ...]] = ("judge",)
    made_for = "calibrated_judges"
    group: ClassVar[str] = "judges"
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    schema: ClassVar[TableSchema]
    label_file: ClassVar[str] = ""
    """Key in ``Experiment.named_files`` of the labels that the stage reads without an asset."""

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        file = context.experiment.named_files.get(self.label_file)
        labels = {f"file.{self.label_file}": context.file_digest(file)} if file is not None else {}
        return {**labels, **super().versions(context, key)}

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        cells = enumerate(experiment.answer_cells)
        return [
            *(Input(f"answers_{number}", answers_key(name)) for number, name in cells),
            Input("verdicts", verdicts_key(CORRECTNESS, key["judge"])),
            Input("labels", ANSWER_LABELS_KEY),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            COUNTING_INPUT,
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        confidence = experiment.statistics.confidence
        return {"answerers": list(experiment.answer_cells), "confidence": confidence}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        counting = counting_of(lambda key_read: context.artifact(key_read).table())
        questions, labelled, tables = self._judged(context, key)
        drawn = list(samples(counting, questions, labelled))
        rows = [row for sample in drawn for row in self._rows(context, key, tables, sample)]
        n_questions = sum(len(sample.drawn) for sample in drawn)
        facts = {"n_questions": n_questions, "n_drawn": sum(int(s.drawn.sum()) for s in drawn)}
        return TableProduct(self.schema.from_rows(rows), facts)

    def _judged(self, context: StageContext, key: ArtifactKey) -> Judged:
        labels = context.artifact(ANSWER_LABELS_KEY).table()
        questions = questions_with_golds(context.artifact(QUERY_FACTS_KEY).table())
        judged = judged_tables(context, key["judge"]).items()
        tables = {(name, JUDGED_CORRECT): table for name, table in judged}
        return questions, labelled_questions(labels), tables

    def _rows(
        self, context: StageContext, key: ArtifactKey, tables: Tables, sample: Sample
    ) -> Iterator[Row]:
        """Yield what is estimated from the questions of one split."""
        level, elsewhere = context.experiment.statistics.confidence, self._elsewhere(context, key)
        for (name, metric), table in tables.items():
            yield mean_row(name, metric, table, sample, level, elsewhere)

    def _elsewhere(self, context: StageContext, key: ArtifactKey) -> tuple[Floats, Floats] | None:
        """Return labels of other answers and the verdicts on them, where they may stand in."""
        return None


class CalibratedMeans(_Calibrated):
    """A judge's means, calibrated with labels from people."""

    name = "calibrated_means"
    schema = CALIBRATED_MEANS
    row = "One mean of a judge's verdicts: as it is, calibrated with labels, and its interval."

    def _elsewhere(self, context: StageContext, key: ArtifactKey) -> tuple[Floats, Floats]:
        labels = context.artifact(ANSWER_LABELS_KEY).table()
        verdicts = context.artifact(verdicts_key(CORRECTNESS, key["judge"])).table()
        return labels_with_verdicts(labels, verdicts)


class CalibratedDifferences(_Calibrated):
    """Differences of answerers by a judge, calibrated with labels from people."""

    name = "calibrated_differences"
    schema = CALIBRATED_DIFFERENCES
    row = "Two answerers by a judge's verdicts, calibrated with labels."

    def _rows(
        self, context: StageContext, key: ArtifactKey, tables: Tables, sample: Sample
    ) -> Iterator[Row]:
        level = context.experiment.statistics.confidence
        for (a, table_a), (b, table_b) in combinations(tables.items(), 2):
            yield difference_row((a[0], b[0]), JUDGED_CORRECT, (table_a, table_b), sample, level)


class CalibratedRankings(_Calibrated):
    """Metrics of retrievers by a judge's verdicts, calibrated with labels from people."""

    name = "calibrated_rankings"
    label_file = LABELS
    made_for = "relevance_judges"
    schema = CALIBRATED_MEANS
    row = "One metric of a retriever by a judge's verdicts: as it is, calibrated, its interval."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names = enumerate(experiment.retrievers)
        passages = [Input(f"passages_{number}", passage_lists_key(name)) for number, name in names]
        verdicts = Input("verdicts", verdicts_key(RELEVANCE, key["judge"]))
        return [*passages, verdicts, Input("documents", DOCUMENTS_KEY, "text"), COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "retrievers": list(experiment.retrievers),
            "metrics": [str(metric) for metric in _metrics(experiment, key["judge"])],
            "confidence": experiment.statistics.confidence,
        }

    def _judged(self, context: StageContext, key: ArtifactKey) -> Judged:
        experiment = context.experiment
        counting = counting_of(lambda key_read: context.artifact(key_read).table())
        k = cutoff_of(experiment, key["judge"])
        passages = judged_passages(context, k)
        pool = label_pool(passages, sorted(row["query_id"] for row in counting), k)
        verdicts = context.artifact(verdicts_key(RELEVANCE, key["judge"])).table()
        file = experiment.passage_label_files.get(LABELS)
        valid = valid_judgments(file, context.artifact(DOCUMENTS_KEY).table())[0] if file else ()
        lines = [line for line in valid if not line.is_hint]
        labels = label_grades(pool, lines)
        *ratios, metric = _metrics(experiment, key["judge"])
        tables = judged_metrics(pool, verdict_grades(pool, verdicts), labels, ratios)
        precisions = judged_precisions(pool, passages, verdicts, labels)
        tables |= {(name, metric): table for name, table in precisions.items()}
        labelled = {line.item.query_id for line in lines if line.probability is not None}
        failed = {name: cell.manifest.failures for name, cell in _passage_cells(context, k).items()}
        named = {(n, str(m)): without_failed(table, failed[n]) for (n, m), table in tables.items()}
        return pool.question_ids, labelled, named

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        k = cutoff_of(context.experiment, key["judge"])
        return TableProduct(super().compute_one(context, key).table, {"top_k": k})


class CalibratedClaims(_Calibrated):
    """What a judge says of claims without right answers, calibrated with labels from people."""

    name = "calibrated_claims"
    label_file = "claim_labels"
    made_for = "claim_judges"
    schema = CALIBRATED_MEANS
    row = "One mean of a judge's verdicts on claims: as it is, calibrated, and its interval."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        verdicts = Input("verdicts", verdicts_key(GROUNDEDNESS, key["judge"]))
        return [*ClaimVerdicts().inputs(experiment, key), verdicts, COUNTING_INPUT]

    def _judged(self, context: StageContext, key: ArtifactKey) -> Judged:
        rows = context.artifact(verdicts_key(GROUNDEDNESS, key["judge"])).table()
        verdicts = {row[:-1]: row[-1] for row in column_values(rows, *CLAIM_VERDICTS.key, "grade")}
        labels = read_claim_labels(context.experiment.claim_labels)
        claims: dict[tuple[str, str], list[ClaimItem]] = {}
        for name, item in claims_of(context, key["judge"]):
            claims.setdefault((name, item.kind), []).append(item)
        answers = {name: context.artifact(answers_key(name)).table() for name, _ in claims}
        tables = {
            (name, kind): judged_claims(answers[name], items, verdicts, labels)
            for (name, kind), items in claims.items()
        }
        return list(question_texts(context)), {label.query_id for label in labels.values()}, tables


def asked_claims(context: StageContext, questions: Sequence[str]) -> list[ClaimItem]:
    """Return the claims of answers to some questions that judges judge, blind within a question.

    Raises:
        UsageError: no judge judges claims.
    """
    judges = context.experiment.claim_judges
    if not judges:
        problem = f"no judge judges {' or '.join(OF_CLAIMS)}; add one to `judges`"
        raise UsageError(f"{context.experiment.source}: {problem}")
    place = {query_id: number for number, query_id in enumerate(questions)}
    items = {item for judge in judges for _, item in claims_of(context, judge)}
    chosen = (item for item in items if item.query_id in place)
    return sorted(chosen, key=lambda item: (place[item.query_id], claim_id(item)))


def cutoff_of(experiment: Experiment, judge: str) -> int:
    """Return the cut-off: that of the primary metric, or how deep the judge looks if less."""
    return min(experiment.primary.cutoff or max(experiment.top_k), experiment.judges[judge].depth)


def _metrics(experiment: Experiment, judge: str) -> list[Metric]:
    """Return what labels of whole questions calibrate, and context precision, which needs none."""
    k = cutoff_of(experiment, judge)
    names = experiment.metrics if LABELS in experiment.passage_label_files else ()
    metrics = (parse_metric(name)._replace(cutoff=k) for name in names)
    ratios = [metric for metric in metrics if metric.measure in RATIOS]
    return [*ratios, Metric(CONTEXT_PRECISION, k)]


def judged_passages(context: StageContext, k: int) -> dict[str, pa.Table]:
    """Return retriever -> its first ``k`` passages for each query: :data:`~.schemas.PASSAGES`."""
    tables = {name: cell.table() for name, cell in _passage_cells(context, k).items()}
    return {name: t.filter(pc.less_equal(t["rank"], k)) for name, t in tables.items()}


def _passage_cells(context: StageContext, k: int) -> dict[str, Artifact]:
    """Return retriever -> its first cut-off of passages that is at least ``k`` deep, if any is."""
    cutoffs = context.experiment.judged_cutoffs
    cutoff = min((n for n in cutoffs if n >= k), default=max(cutoffs))
    names = context.experiment.retrievers
    return {name: context.artifact(passages_key(name, cutoff)) for name in names}


def judged_tables(context: StageContext, judge: str) -> dict[str, pa.Table]:
    """Return answerer at its cut-off -> what the judge and people say of its answers."""
    labels = context.artifact(ANSWER_LABELS_KEY).table()
    verdicts = context.artifact(verdicts_key(CORRECTNESS, judge)).table()
    return {
        name: judged_answers(context.artifact(answers_key(name)).table(), verdicts, labels)
        for name in context.experiment.answer_cells
    }


def clusters_by_split(
    context: StageContext, *, passages: bool = False
) -> dict[str, dict[str, str]]:
    """Return split -> question -> its cluster, of the questions that can be judged.

    Passages of all questions are judged; answers, where a right one is known.

    Raises:
        NotEvaluated: no question has a right answer.
    """
    facts = context.artifact(QUERY_FACTS_KEY).table()
    judged = set(facts["query_id"].to_pylist()) if passages else questions_with_golds(facts)
    splits = {
        counted.split: dict(zip(counted.query_ids, counted.clusters, strict=True))
        for counted in splits_counted(counting_of(lambda key: facts), judged)
    }
    if not splits:
        raise NotEvaluated("no question has a right answer, so no answer can be judged")
    return splits


def chosen_clusters(
    context: StageContext, split: str | None, *, passages: bool = False
) -> dict[str, str]:
    """Return question -> cluster of one split: test where there is one, when none is named.

    Raises:
        UsageError: there is no such split.
        NotEvaluated: no question has a right answer.
    """
    splits = clusters_by_split(context, passages=passages)
    chosen = split or (TEST if TEST in splits else min(splits))
    if chosen not in splits:
        raise UsageError(f"unknown split {allowed_names(chosen, splits)}")
    return splits[chosen]


def probabilities(
    splits: Mapping[str, Mapping[str, str]], labelled: Collection[str]
) -> dict[str, float]:
    """Return question -> the chance with which it was drawn, of those drawn so far.

    ``splits`` are those of :func:`clusters_by_split`, ``labelled`` the questions with labels.
    """
    chances: dict[str, float] = {}
    for clusters in splits.values():
        drawn = drawn_so_far(clusters, labelled)
        share = len({clusters[name] for name in drawn}) / len(set(clusters.values()))
        chances |= dict.fromkeys(drawn, share)
    return chances


def asked_answers(context: StageContext, questions: Collection[str]) -> list[CorrectnessItem]:
    """Return the different answers of all answerers to some questions, question by question."""
    place = {query_id: number for number, query_id in enumerate(questions)}
    items = (item for item in correctness_items(context) if item.query_id in place)
    in_words = (item for item in items if item.text.strip())  # a blank one is wrong
    return sorted(in_words, key=lambda item: place[item.query_id])


def asked_passages(context: StageContext, questions: Sequence[str]) -> list[PooledUnit]:
    """Return the merged passages of some questions, of all retrievers, as deep as is judged.

    Raises:
        UsageError: no judge judges passages.
        MissingArtifact: a retriever is not up to date.
    """
    experiment = context.experiment
    judges = experiment.relevance_judges
    if not judges:
        raise UsageError(f"{experiment.source}: no judge judges relevance; add one to `judges`")
    k = max(cutoff_of(experiment, name) for name in judges)
    ids = context.artifact(QUERY_FACTS_KEY).table()["query_id"].to_pylist()
    items = label_pool(judged_passages(context, k), sorted(ids), k).items
    place = {query_id: number for number, query_id in enumerate(questions)}
    return sorted(
        (item for item in items if item.query_id in place),
        # by a hash, so that nothing tells who found a passage
        key=lambda item: (place[item[0]], permanent_hash(*item)),
    )
