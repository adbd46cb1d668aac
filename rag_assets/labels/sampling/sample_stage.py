"""``sampled_passages``, ``sampled_labels`` and ``sampled_estimates``: labels of single passages.

They stand where a log of judgments with its design lies beside the experiment. No other stage reads
them: the leaderboard's own columns are of complete labels. A new judgment makes ``sampled_labels``
and ``sampled_estimates`` stale, and nothing else.

The page and ``rag-assets label --status`` say how things stand in between: the estimates, what is
decided, and how much more decides it. Two targets, which are never mixed: each estimate has an
interval for *these questions and this pool*, and one for *questions like these*. Decisions, and how
much more is to be judged, speak of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.units import unit_spans
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import JUDGED, LoggedJudgment, drawn_items, read_judgments
from rag_assets.labels.pool import LabelPool, Spans, label_pool, sampled_metrics, spans_of, texts_of
from rag_assets.labels.sampling.confidence_sequence import decisions
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.label_sample import (
    LabelSample,
    earlier_labels,
    label_sample,
    lost_notes,
    sample_table,
    stored_sample,
    valid_judgments,
    whole_readers,
)
from rag_assets.package_versions import version
from rag_assets.retrieval.external.units import chunks_of
from rag_assets.retrieval.runs_stage import chunk_keys, run_key
from rag_assets.schemas import SAMPLED_ESTIMATES, SAMPLED_LABELS, SAMPLED_PASSAGES, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

SAMPLED_PASSAGES_KEY = ArtifactKey.of("sampled_passages")
SAMPLED_LABELS_KEY = ArtifactKey.of("sampled_labels")
SAMPLED_ESTIMATES_KEY = ArtifactKey.of("sampled_estimates")

Artifacts = Callable[[ArtifactKey], Artifact]


class _Sampled(Stage):
    """One partition, of all retrievers together."""

    made_for = "label_sample_files"

    group: ClassVar[str] = "labels"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("questions", QUERIES_KEY, "ids"), Input("passages", SAMPLED_PASSAGES_KEY)]


class SampledPassages(_Sampled):
    """The pool of passages from which a sample is drawn for people to label."""

    name = "sampled_passages"
    schema = SAMPLED_PASSAGES
    row = "A passage in the first ranks of a retriever, and its label of the dataset."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names, k = list(experiment.retrievers), _cutoff(experiment, sampled_depth(experiment))
        read = [Input(f"run_{n}", run_key(experiment, name, k)) for n, name in enumerate(names)]
        if experiment.judge == "evidence":
            chunks = dict.fromkeys(key for name in names for key in chunk_keys(experiment, name))
            read += [Input(f"chunks_{n}", key, "spans") for n, key in enumerate(chunks)]
        else:
            read.append(Input("documents", DOCUMENTS_KEY, "text"))
        if _has_earlier_labels(experiment):
            read += [Input(f"labels_{n}", relevant_units_key(name)) for n, name in enumerate(names)]
        return read

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        where = {"depth": sampled_depth(experiment), "judge": experiment.judge}
        return {**where, "retrievers": list(experiment.retrievers)}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, depth = context.experiment, sampled_depth(context.experiment)
        tables = sampled_passages(experiment, context.artifact, depth).values()
        return TableProduct(pa.concat_tables(tables))


class SampledLabels(_Sampled):
    """Labels of the drawn passages, from people."""

    name = "sampled_labels"
    schema = SAMPLED_LABELS
    row = "A passage of the pool: whether it was shown to people, their label, and its probability."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [*super().inputs(experiment, key), Input("documents", DOCUMENTS_KEY, "text")]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"depth": sampled_depth(context.experiment)}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        files = context.experiment.label_sample_files
        digests = {f"file.{name}": context.file_digest(file) for name, file in files.items()}
        return {**digests, "numpy": version("numpy")}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        files, depth = context.experiment.label_sample_files, sampled_depth(context.experiment)
        table = context.artifact(SAMPLED_PASSAGES_KEY).table()
        passages = passages_of(table, context.experiment.retrievers)
        design, lines = read_design(files["design"]), read_judgments(files["log"])
        pool = label_pool(passages, question_ids(context.artifact), depth, design.items)
        now = design.extended(pool.items, pool.weights(Metric("dcg", depth)), drawn_items(lines))
        valid, lost = valid_judgments(files["log"], context.artifact(DOCUMENTS_KEY).table())
        sample = label_sample(pool, now, valid, earlier_labels(passages))
        facts = {"n_judged": int(sample.judged.sum()), "n_items": len(pool.items)}
        has_board = context.experiment.has_graded_pool
        notes = lost_notes(lost, files["log"]) + ([] if has_board else part_notes(pool, valid))
        return TableProduct(sample_table(sample), {**facts, "notes": notes})


class SampledEstimates(_Sampled):
    """Metrics of retrievers, estimated from a sample of labels."""

    name = "sampled_estimates"
    schema = SAMPLED_ESTIMATES
    row = "A metric of a retriever, estimated from a sample of labels, with its intervals."
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        counting = [COUNTING_INPUT] if experiment.measures_texts else []
        return [*super().inputs(experiment, key), Input("labels", SAMPLED_LABELS_KEY), *counting]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        depth = sampled_depth(experiment)
        return {
            "retrievers": list(experiment.retrievers),
            "metrics": list(map(str, sampled_metrics(experiment.primary, depth))),
            "depth": depth,
            "confidence": experiment.statistics.confidence,
            "clustered": is_clustered(experiment),
        }

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, level = context.experiment, context.experiment.statistics.confidence
        depth = sampled_depth(experiment)
        labels = context.artifact(SAMPLED_LABELS_KEY).table()
        passages = context.artifact(SAMPLED_PASSAGES_KEY).table()
        ids = question_ids(context.artifact)
        sample = stored_sample(labels, passages_of(passages, experiment.retrievers), ids, depth)
        clusters = clusters_of(experiment, context.artifact, ids)
        rows: list[dict[str, object]] = []
        if sample.is_estimable:
            rows = [
                {**row, "n": len(ids), "confidence": level}
                for metric in sampled_metrics(experiment.primary, depth)
                for row in estimate_rows(sample, metric, clusters, level)
            ]
        return TableProduct(SAMPLED_ESTIMATES.from_rows(rows), {"top_k": depth})


def sampled_depth(experiment: Experiment) -> int:
    """Return how many ranks are in the pool: as many as the primary metric looks at."""
    deepest = max(experiment.top_k)
    return min(experiment.primary.cutoff or deepest, deepest)


def _has_earlier_labels(experiment: Experiment) -> bool:
    """Return whether there are labels beside the log; those that it makes itself were drawn."""
    return experiment.has_qrels and not experiment.has_graded_pool


def _cutoff(experiment: Experiment, depth: int) -> int:
    """Return the first cut-off that is as deep."""
    return min(k for k in experiment.top_k if k >= depth)


def question_ids(artifact: Artifacts) -> list[str]:
    """Return the ids of all questions, in their order."""
    return [str(query_id) for query_id in artifact(QUERIES_KEY).table()["query_id"].to_pylist()]


def passages_of(table: pa.Table, retrievers: Iterable[str]) -> dict[str, pa.Table]:
    """Return retriever -> its rows of a table of :data:`rag_assets.schemas.SAMPLED_PASSAGES`."""
    return {name: table.filter(pc.equal(table["retriever"], name)) for name in retrievers}


def sampled_passages(
    experiment: Experiment, artifact: Artifacts, depth: int, retrievers: Iterable[str] | None = None
) -> dict[str, pa.Table]:
    """Return retriever -> its passages, a table of :data:`rag_assets.schemas.SAMPLED_PASSAGES`.

    Labels of the dataset are looked up, unless people drew them.
    """
    has_labels = _has_earlier_labels(experiment)
    tables = {}
    for name in experiment.retrievers if retrievers is None else retrievers:
        run = artifact(run_key(experiment, name, _cutoff(experiment, depth))).table()
        top = run.filter(pc.less_equal(run["rank"], depth))
        spans = _spans(experiment, artifact, name)
        labels: dict[tuple[str, str], int] = {}
        for row in artifact(relevant_units_key(name)).table().to_pylist() if has_labels else ():
            if row["unit_id"] is not None and row["grade"] is not None:
                pair = (row["query_id"], row["unit_id"])
                labels[pair] = max(row["grade"], labels.get(pair, row["grade"]))
        rows: list[dict[str, object]] = []
        for query_id, unit_id, rank in column_values(top, "query_id", "unit_id", "rank"):
            if unit_id in spans:
                row = {"retriever": name, "query_id": query_id, "rank": rank}
                row |= dict(zip(("document_id", "start", "end"), spans[unit_id], strict=True))
                rows.append({**row, "label": labels.get((query_id, unit_id))})
        tables[name] = SAMPLED_PASSAGES.from_rows(rows)
    return tables


def _spans(experiment: Experiment, artifact: Artifacts, retriever: str) -> Spans:
    if experiment.judge != "evidence":
        texts = texts_of(artifact(DOCUMENTS_KEY).table())
        return {name: (name, 0, len(text)) for name, text in texts.items()}
    tables = [chunks_of(artifact(key)) for key in chunk_keys(experiment, retriever)]
    spans = pa.concat_tables([unit_spans(table) for table in tables])
    # A returned text that was not located is no span that anybody could judge.
    return spans_of(spans.filter(pc.greater(spans["end"], 0)))


def is_clustered(experiment: Experiment) -> bool:
    """Return whether questions may hang together, and it is known which."""
    return experiment.statistics.cluster != "none" and experiment.measures_texts


def clusters_of(
    experiment: Experiment, artifact: Artifacts, ids: Sequence[str]
) -> list[str] | None:
    """Return the cluster of each question; None where none is known."""
    if not is_clustered(experiment):
        return None
    counting = counting_of(lambda key: artifact(key).table())
    names = {row["query_id"]: row["cluster"] for row in counting}
    return [names.get(query_id, query_id) for query_id in ids]


ITEMS, QUESTIONS = "these questions and this pool", "questions like these"

PRICE = (
    "A decision holds however often you look. The price: at 8 judgments a question 66 % of the "
    "pairs more than 5 % apart were decided in a trial on Cranfield"
)

Row = dict[str, Any]


def part_notes(pool: LabelPool, lines: Iterable[LoggedJudgment]) -> list[str]:
    """Return what is to be said of grades of parts of passages; nothing without one."""
    names = ", ".join(whole_readers(pool, lines))
    what = "count a whole passage where they may miss the part that has the grade"
    so = "so no difference with them is decided; a leaderboard, when all is graded, counts it"
    return [f"estimates of {names} {what}, {so}"] if names else []


def sample_status(
    sample: LabelSample,
    metric: Metric,
    lines: Sequence[LoggedJudgment],
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> Row:
    """Return how things stand with one metric.

    The pace is that of ``lines``, ``clusters`` has one name a question (None: each is its own), and
    ``level`` is of each interval, and of each pair over all looks together.

    Returns:
        ``estimates``: one row a retriever, the best first, see :func:`estimate_rows`.
        ``differences``: one row a pair, the one that is ahead minus the other: ``retriever_a``,
        ``retriever_b``, ``value``; ``low``, ``high``, ``decided``, ``outside`` of
        :class:`.confidence_sequence.Decision`, undecided where one is of
        :func:`.label_sample.whole_readers`; how much more decides it, as below.
        ``more_judgments_low``, ``more_judgments_high``: that decide all pairs; None without a
        label. ``more_minutes_low``, ``more_minutes_high``: at the pace so far; None without one.
    """
    if not sample.is_estimable:
        return {"estimates": [], "differences": [], **_more(lines, None, None)}
    estimates = estimate_rows(sample, metric, clusters, level)
    order = [str(row["retriever"]) for row in estimates]
    pairs = decisions(sample, metric, level=level, pairs=list(combinations(order, 2)))
    unsure = set(whole_readers(sample.pool, lines))
    differences = [
        {
            "metric": str(metric),
            "retriever_a": first,
            "retriever_b": second,
            "value": decision.value,
            "low": finite(decision.low),
            "high": finite(decision.high),
            "decided": decision.decided and unsure.isdisjoint((first, second)),
            "outside": decision.is_outside,
            **_more(lines, decision.more_low, decision.more_high),
        }
        for (first, second), decision in pairs.items()
    ]
    low = max((decision.more_low for decision in pairs.values()), default=0)
    high = max((decision.more_high for decision in pairs.values()), default=0)
    return {"estimates": estimates, "differences": differences, **_more(lines, low, high)}


def _more(lines: Sequence[LoggedJudgment], low: int | None, high: int | None) -> Row:
    return {
        "more_judgments_low": low,
        "more_judgments_high": high,
        "more_minutes_low": minutes(lines, low),
        "more_minutes_high": minutes(lines, high),
    }


_OF_ESTIMATES = ("lowest", "highest", "n_labels", "effective_labels", "n_no_chance")


def estimate_rows(
    sample: LabelSample, metric: Metric, clusters: Sequence[str] | None, level: float
) -> list[Row]:
    """Return one row a retriever, the best first.

    Returns:
        ``metric``, ``retriever``, ``value``; ``items_low``, ``items_high`` of :data:`ITEMS`;
        ``questions_low``, ``questions_high`` of :data:`QUESTIONS`; ``lowest``, ``highest``: with
        all "cannot tell" at the lowest and the highest gain; ``n_labels``, ``effective_labels``,
        ``n_no_chance``.
    """
    estimator = Estimator(sample, metric, clusters)
    of_questions = estimator.estimates("questions", level)
    of_items = estimator.estimates("items", level).items()
    return [
        {
            "metric": str(metric),
            "retriever": name,
            "value": estimate.value,
            "items_low": finite(estimate.low),
            "items_high": finite(estimate.high),
            "questions_low": finite(of_questions[name].low),
            "questions_high": finite(of_questions[name].high),
            **{name: getattr(estimate, name) for name in _OF_ESTIMATES},
        }
        for name, estimate in sorted(of_items, key=lambda pair: (-pair[1].value, pair[0]))
    ]


def minutes(lines: Sequence[LoggedJudgment], more: int | None) -> int | None:
    """Return how long so many judgments take at the pace so far; None where it is not known."""
    times = [line.seconds for line in lines if line.status == JUDGED and line.seconds]
    return math.ceil(more * median(times) / 60) if times and more is not None else None


def finite(value: float) -> float | None:
    """Return a number that JSON has; None: no bound yet."""
    return value if math.isfinite(value) else None
