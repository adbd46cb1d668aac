"""``sampled_passages``, ``sampled_labels`` and ``sampled_estimates``: labels of single passages.

They stand where a log of judgments with its design lies beside the experiment. No other stage reads
them: the leaderboard's own columns are of complete labels. A new judgment makes ``sampled_labels``
and ``sampled_estimates`` stale, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import Chunks
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.units import unit_spans
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import drawn_items, read_judgments
from rag_assets.labels.pool import Spans, label_pool, sampled_metrics, spans_of, texts_of
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.label_sample import (
    earlier_labels,
    label_sample,
    sample_table,
    stored_sample,
)
from rag_assets.labels.sampling.standing import estimate_rows
from rag_assets.package_versions import version
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import SAMPLED_ESTIMATES, SAMPLED_LABELS, SAMPLED_PASSAGES
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

SAMPLED_PASSAGES_KEY = ArtifactKey.of("sampled_passages")
SAMPLED_LABELS_KEY = ArtifactKey.of("sampled_labels")
SAMPLED_ESTIMATES_KEY = ArtifactKey.of("sampled_estimates")

Artifacts = Callable[[ArtifactKey], Artifact]
_IDS = Input("questions", QUERIES_KEY, "ids")


class SampledPassages(Stage):
    """The passages of which a sample is drawn for people to label."""

    name = "sampled_passages"
    schema = SAMPLED_PASSAGES
    row = "A passage in the first ranks of a retriever, and its label of the dataset."
    group = "labels"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [SAMPLED_PASSAGES_KEY] if experiment.label_sample_files else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names, k = list(experiment.retrievers), _cutoff(experiment, sampled_depth(experiment))
        read = [Input(f"run_{n}", run_key(experiment, name, k)) for n, name in enumerate(names)]
        if experiment.judge == "evidence":
            chunks = dict.fromkeys(one for name in names for one in chunk_keys(experiment, name))
            read += [Input(f"chunks_{n}", one, "spans") for n, one in enumerate(chunks)]
        else:
            read.append(Input("documents", DOCUMENTS_KEY, "text"))
        if _has_earlier_labels(experiment):
            read += [Input(f"labels_{n}", relevant_units_key(one)) for n, one in enumerate(names)]
        return read

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        where = {"depth": sampled_depth(experiment), "judge": experiment.judge}
        return {**where, "retrievers": list(experiment.retrievers)}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, depth = context.experiment, sampled_depth(context.experiment)
        tables = sampled_passages(experiment, context.artifact, depth).values()
        return TableProduct(pa.concat_tables(tables))


class _OfAll(Stage):
    """One partition, of all retrievers together."""

    group: ClassVar[str] = "labels"
    own_key: ClassVar[ArtifactKey]

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [self.own_key] if experiment.label_sample_files else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [_IDS, Input("passages", SAMPLED_PASSAGES_KEY)]


class SampledLabels(_OfAll):
    """What people said of the drawn passages."""

    name = "sampled_labels"
    schema = SAMPLED_LABELS
    row = "A passage of the pool: whether people were asked, what they said, and its chance."
    own_key = SAMPLED_LABELS_KEY

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
        sample = label_sample(pool, now, lines, earlier_labels(passages))
        facts = {"n_judged": int(sample.judged.sum()), "n_items": len(pool.items)}
        return TableProduct(sample_table(sample), facts)


class SampledEstimates(_OfAll):
    """Metrics of retrievers, estimated from a sample of labels."""

    name = "sampled_estimates"
    schema = SAMPLED_ESTIMATES
    row = "A metric of a retriever, estimated from a sample of labels, with its intervals."
    own_key = SAMPLED_ESTIMATES_KEY
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
    return [str(one) for one in artifact(QUERIES_KEY).table()["query_id"].to_pylist()]


def passages_of(table: pa.Table, retrievers: Iterable[str]) -> dict[str, pa.Table]:
    """Return retriever -> its rows of a table of :data:`rag_assets.schemas.SAMPLED_PASSAGES`."""
    return {name: table.filter(pc.equal(table["retriever"], name)) for name in retrievers}


def sampled_passages(
    experiment: Experiment,
    artifact: Artifacts,
    depth: int,
    retrievers: Iterable[str] | None = None,
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
        columns = (top[column].to_pylist() for column in ("query_id", "unit_id", "rank"))
        tables[name] = SAMPLED_PASSAGES.from_rows(
            [
                {
                    "retriever": name,
                    "query_id": query_id,
                    "rank": rank,
                    **dict(zip(("document_id", "start", "end"), spans[unit_id], strict=True)),
                    "label": labels.get((query_id, unit_id)),
                }
                for query_id, unit_id, rank in zip(*columns, strict=True)
                if unit_id in spans
            ]
        )
    return tables


def _spans(experiment: Experiment, artifact: Artifacts, retriever: str) -> Spans:
    if experiment.judge != "evidence":
        texts = texts_of(artifact(DOCUMENTS_KEY).table())
        return {name: (name, 0, len(text)) for name, text in texts.items()}
    columns = Chunks.projections["spans"]
    tables = [artifact(key).table(columns) for key in chunk_keys(experiment, retriever)]
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
    facts = counting_of(lambda key: artifact(key).table())
    names = dict(zip(*(facts[c].to_pylist() for c in ("query_id", "cluster")), strict=True))
    return [names.get(one, one) for one in ids]
