"""``answer_labels``, ``calibrated_means`` and ``calibrated_differences``: verdicts and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.answers.stage import answers_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, QUERY_FACTS_KEY, counting_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.answer_labels import read_answer_labels
from rag_assets.judges.base import CORRECTNESS
from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    Sample,
    difference_row,
    judged_answers,
    labels_with_verdicts,
    mean_row,
    questions_with_golds,
    samples,
)
from rag_assets.judges.verdicts_stage import answer_verdicts_key
from rag_assets.package_versions import version
from rag_assets.schemas import ANSWER_LABELS, CALIBRATED_DIFFERENCES, CALIBRATED_MEANS
from rag_assets.store.artifacts import ArtifactKey

ANSWER_LABELS_KEY = ArtifactKey.of("answer_labels")


class AnswerLabels(Stage):
    """Read from the file beside the experiment; no server and no retriever has a part in it."""

    name = "answer_labels"
    schema = ANSWER_LABELS
    row = "What people say of one answer to one question."
    group = "judges"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        used = experiment.has_answer_labels and bool(experiment.judges_of(CORRECTNESS))
        return [ANSWER_LABELS_KEY] if used else []

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
    group: ClassVar[str] = "judges"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        judges = experiment.judges_of(CORRECTNESS) if experiment.has_answer_labels else ()
        return [ArtifactKey.of(self.name, judge=name) for name in judges]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            *(
                Input(f"answers_{number}", answers_key(name))
                for number, name in enumerate(experiment.answer_cells)
            ),
            Input("verdicts", answer_verdicts_key(key["judge"])),
            Input("labels", ANSWER_LABELS_KEY),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            COUNTING_INPUT,
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "answerers": list(experiment.answer_cells),
            "confidence": experiment.statistics.confidence,
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {"numpy": version("numpy"), "scipy": version("scipy")}


class CalibratedMeans(_Calibrated):
    """The mean of each answerer."""

    name = "calibrated_means"
    schema = CALIBRATED_MEANS
    row = "One mean of a judge's verdicts: as it is, calibrated with labels, and its interval."

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        level = context.experiment.statistics.confidence
        tables, drawn = _judged(context, key["judge"])
        elsewhere = labels_with_verdicts(
            context.artifact(ANSWER_LABELS_KEY).table(),
            context.artifact(answer_verdicts_key(key["judge"])).table(),
        )
        rows = [
            mean_row(name, JUDGED_CORRECT, table, sample, level, elsewhere)
            for sample in drawn
            for name, table in tables.items()
        ]
        return TableProduct(CALIBRATED_MEANS.from_rows(rows), _facts(drawn))


class CalibratedDifferences(_Calibrated):
    """The difference of each pair of answerers."""

    name = "calibrated_differences"
    schema = CALIBRATED_DIFFERENCES
    row = "Two answerers by a judge's verdicts, calibrated with labels."

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        level = context.experiment.statistics.confidence
        tables, drawn = _judged(context, key["judge"])
        rows = [
            difference_row((a, b), JUDGED_CORRECT, (tables[a], tables[b]), sample, level)
            for sample in drawn
            for a, b in combinations(tables, 2)
        ]
        return TableProduct(CALIBRATED_DIFFERENCES.from_rows(rows), _facts(drawn))


def _judged(context: StageContext, judge: str) -> tuple[dict[str, pa.Table], list[Sample]]:
    """Return what the judge and people say of each answerer, and the questions of each split."""
    labels = context.artifact(ANSWER_LABELS_KEY).table()
    verdicts = context.artifact(answer_verdicts_key(judge)).table()
    tables = {
        name: judged_answers(context.artifact(answers_key(name)).table(), verdicts, labels)
        for name in context.experiment.answer_cells
    }
    questions = questions_with_golds(context.artifact(QUERY_FACTS_KEY).table())
    counting = counting_of(lambda key: context.artifact(key).table())
    return tables, list(samples(counting, questions, labels))


def _facts(drawn: Sequence[Sample]) -> Mapping[str, Any]:
    return {
        "n_questions": sum(len(sample.drawn) for sample in drawn),
        "n_drawn": sum(sample.n_drawn for sample in drawn),
    }


def calibrated_means_key(judge: str) -> ArtifactKey:
    """Return the calibrated means of one judge."""
    return ArtifactKey.of("calibrated_means", judge=judge)


def calibrated_differences_key(judge: str) -> ArtifactKey:
    """Return the calibrated differences of one judge."""
    return ArtifactKey.of("calibrated_differences", judge=judge)
