"""``calibrated_rankings``: metrics of retrievers by verdicts, calibrated with labels of people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import passage_lists_key, passages_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.answer_labels import drawn_so_far
from rag_assets.judges.base import RELEVANCE
from rag_assets.judges.calibration import Row, Sample, mean_row, splits_counted
from rag_assets.judges.ranking_calibration import (
    SAMPLED,
    Grades,
    judged_rankings,
    label_grades,
    sampled_rows,
    verdict_grades,
)
from rag_assets.judges.verdicts_stage import relevance_verdicts_key
from rag_assets.labels.sampling.design import Design, read_design
from rag_assets.labels.sampling.judgment_log import read_judgments
from rag_assets.labels.sampling.label_pool import LabelPool, pool_of
from rag_assets.package_versions import version
from rag_assets.schemas import CALIBRATED_MEANS
from rag_assets.store.artifacts import ArtifactKey

LABELS, LOG = "passage_labels", "judgments_log"
"""Keys of the YAML: labels of whole questions, and of passages drawn one by one."""

RATIOS = ("ndcg", "precision", "hit_rate", "mrr", "recall", "map")
"""Those of the experiment's metrics that whole questions calibrate: each lies in [0, 1]."""


class CalibratedRankings(Stage):
    """One partition a judge of passages."""

    name = "calibrated_rankings"
    dimensions: ClassVar[tuple[str, ...]] = ("judge",)
    schema = CALIBRATED_MEANS
    row = "One metric of a retriever by a judge's verdicts: as it is, calibrated, its interval."
    group = "judges"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        judges = experiment.judges_of(RELEVANCE) if experiment.passage_label_files else ()
        return [ArtifactKey.of(self.name, judge=name) for name in judges]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        read = [
            Input(f"passages_{number}", passage_lists_key(name))
            for number, name in enumerate(experiment.retrievers)
        ]
        verdicts = Input("verdicts", relevance_verdicts_key(key["judge"]))
        return [*read, verdicts, COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "retrievers": list(experiment.retrievers),
            "metrics": [str(metric) for metric in ratio_metrics(experiment, key["judge"])],
            "confidence": experiment.statistics.confidence,
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        files = dict(context.experiment.passage_label_files)
        if "design" in context.experiment.label_sample_files:
            files["design"] = context.experiment.label_sample_files["design"]
        digests = {f"file.{name}": context.file_digest(file) for name, file in files.items()}
        return {**digests, "numpy": version("numpy"), "scipy": version("scipy")}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        verdicts = context.artifact(relevance_verdicts_key(key["judge"])).table()
        counting = counting_of(lambda one: context.artifact(one).table())
        k = cutoff_of(context.experiment, key["judge"])
        passages = judged_passages(context, k)
        design = design_of(context.experiment)
        ids = sorted(counting["query_id"].to_pylist())
        pool = pool_of(passages, ids, k, design.items if design is not None else ())
        grades = verdict_grades(pool, verdicts)
        rows = [
            *_of_questions(context, key["judge"], passages, pool, grades, counting),
            *_of_passages(context, pool, grades, counting, design, k),
        ]
        return TableProduct(CALIBRATED_MEANS.from_rows(rows), {"top_k": k})


def _of_questions(
    context: StageContext,
    judge: str,
    passages: Mapping[str, pa.Table],
    pool: LabelPool,
    verdicts: Grades,
    counting: pa.Table,
) -> Iterator[Row]:
    """Yield the metrics that labels of whole questions calibrate."""
    file = context.experiment.passage_label_files.get(LABELS)
    if file is None:
        return
    lines = [one for one in read_judgments(file) if not one.is_hint]
    labelled = {one.item.query_id for one in lines if one.probability is not None}
    metrics = ratio_metrics(context.experiment, judge)
    tables = judged_rankings(passages, pool, verdicts, label_grades(pool, lines), metrics)
    level = context.experiment.statistics.confidence
    for counted in splits_counted(counting, set(pool.question_ids)):
        clusters = dict(zip(counted.query_ids, counted.clusters, strict=True))
        drawn = drawn_so_far(clusters, labelled)
        sample = Sample.of(counted, drawn)
        for (name, metric), table in tables.items():
            yield mean_row(name, str(metric), table, sample, level)


def _of_passages(
    context: StageContext,
    pool: LabelPool,
    verdicts: Grades,
    counting: pa.Table,
    design: Design | None,
    k: int,
) -> list[Row]:
    """Return the metrics that a sample of passages calibrates; of split questions none."""
    file = context.experiment.passage_label_files.get(LOG)
    if file is None or context.experiment.split is not None:
        return []
    names = dict(zip(*(counting[c].to_pylist() for c in ("query_id", "cluster")), strict=True))
    level = context.experiment.statistics.confidence
    clusters = [names[one] for one in pool.question_ids]
    # This judge's verdicts alone are looked at, and people's labels without any.
    lines = [one for one in read_judgments(file) if not one.is_hint]
    return sampled_rows(pool, lines, verdicts, k, level, clusters=clusters, design=design)


def design_of(experiment: Experiment) -> Design | None:
    """Return the design by which single passages were drawn; None where no file holds it."""
    file = experiment.label_sample_files.get("design")
    return read_design(file) if file is not None else None


def cutoff_of(experiment: Experiment, judge: str) -> int:
    """Return the cut-off: that of the primary metric, or how deep the judge looks if less."""
    return min(experiment.primary.cutoff or max(experiment.top_k), experiment.judges[judge].depth)


def ratio_metrics(experiment: Experiment, judge: str) -> tuple[Metric, ...]:
    """Return the experiment's metrics that labels of whole questions calibrate.

    Those that a sample of passages calibrates are left to it, where there is one.
    """
    sampled = SAMPLED if LOG in experiment.passage_label_files else ()
    k = cutoff_of(experiment, judge)
    metrics = (parse_metric(name)._replace(cutoff=k) for name in experiment.metrics)
    return tuple(
        metric for metric in metrics if metric.measure in RATIOS and metric.measure not in sampled
    )


def judged_passages(context: StageContext, k: int) -> dict[str, pa.Table]:
    """Return retriever -> its first ``k`` passages of each query."""
    deep = [one for one in context.experiment.judged_cutoffs if one >= k]
    cutoff = min(deep) if deep else max(context.experiment.judged_cutoffs)
    tables = {}
    for name in context.experiment.retrievers:
        table = context.artifact(passages_key(name, cutoff)).table()
        tables[name] = table.filter(pc.less_equal(table["rank"], k))
    return tables
