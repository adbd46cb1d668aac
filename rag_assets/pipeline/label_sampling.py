"""The sample of labels of an experiment: its pool, its design, where its log lies, its search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from rag_assets.chunking.stage import chunks_key
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import EXPERIMENT_FILE
from rag_assets.labels.page.passages import Hit, Passages
from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.labels.sampling.design import (
    Design,
    disagreement,
    new_design,
    read_design,
    write_design,
)
from rag_assets.labels.sampling.judgment_log import LoggedJudgment, read_judgments
from rag_assets.labels.sampling.label_pool import LINEAR, LabelPool, label_pool
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.run_pool import judged_units, runs_and_spans
from rag_assets.retrieval.base import LexicalRetriever
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.lexical.analyzers import AUTO
from rag_assets.retrieval.lexical.index import LexicalIndex
from rag_assets.retrieval.retriever import IndexSearcher, Searcher
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY

LOG = "labelling.jsonl"
"""No name of a file of labels: it is none that a dataset reads."""

Search: TypeAlias = Callable[[str, int], Sequence[Hit]]
"""Text, n -> the n best hits."""

LABELS = "labels of the dataset"


class SampledPool(NamedTuple):
    """What is asked, in which order, what was known before, and where answers are written."""

    pool: LabelPool
    design: Design
    earlier: tuple[Judgment, ...]
    log: Path

    def lines(self) -> list[LoggedJudgment]:
        """Return what the log holds; nothing before the first judgment."""
        return read_judgments(self.log) if self.log.is_file() else []


def log_file(experiment: Experiment) -> Path:
    """Return the log of the sample, beside the experiment's YAML or its data.

    Beside ``other.yaml`` it is ``other.labelling.jsonl``: a folder may hold several experiments.
    """
    source = experiment.source
    if source.is_dir():
        return source / LOG
    return source.with_name(LOG if source.name == EXPERIMENT_FILE else f"{source.stem}.{LOG}")


def design_file(log: Path) -> Path:
    """Return the file beside a log that says by which design its items were drawn."""
    return log.with_suffix(".design.jsonl")


def sampled_depth(experiment: Experiment) -> int:
    """Return how many ranks are in the pool: as many as the primary metric looks at."""
    deepest = max(experiment.top_k)
    return min(experiment.primary.cutoff or deepest, deepest)


def sampled_metric(experiment: Experiment, depth: int) -> Metric:
    """Return the metric that the sample is to decide: the primary one if it can be estimated."""
    primary = experiment.primary
    is_linear = primary.measure in LINEAR and (primary.cutoff or depth + 1) <= depth
    return primary if is_linear else Metric("dcg", depth)


def sampled_pool(pipeline: Pipeline, depth: int, seed: int = 0) -> SampledPool:
    """Return the sample of an experiment; its design is written, or extended by new systems.

    Args:
        pipeline: of an evaluated experiment.
        depth: how many ranks of each retriever are in the pool.
        seed: of a new sample; one that exists keeps its own.

    Raises:
        UsageError: no run is as deep.
        MissingArtifact: the experiment must be evaluated first.
        DataError: the design or the log was damaged.
    """
    experiment = pipeline.experiment
    runs, units = runs_and_spans(pipeline, depth)
    question_ids = pipeline.artifact(QUERIES_KEY).table().column("query_id").to_pylist()
    log = log_file(experiment)
    file = design_file(log)
    known = read_design(file) if file.is_file() else None
    # A question that is no more has no run; its items would have no number.
    ids = list(dict.fromkeys([*question_ids, *(item.query_id for item in _items(known))]))
    pool = label_pool(runs, units, ids, depth=depth, earlier=_items(known))
    earlier = []
    for name in runs if experiment.has_qrels else ():
        for (query_id, unit_id), grade in judged_units(pipeline, name).items():
            if unit_id in units[name]:
                unit = PooledUnit(query_id, *units[name][unit_id])
                earlier.append(Judgment(unit, grade, LABELS, 0))
    weights = pool.weights(Metric("dcg", depth))
    if known is None:
        design = new_design(pool.items, weights, seed)
    elif pool.items == known.items and (disagreement(weights) <= known.rates[-1] + 1e-9).all():
        return SampledPool(pool, known, tuple(earlier), log)
    else:
        lines = read_judgments(log) if log.is_file() else []
        drawn = {line.item for line in lines if line.was_drawn}
        asked = np.array([item in drawn for item in known.items], np.bool_)
        design = known.extended(pool.items, weights, asked)
    write_design(design, file)
    return SampledPool(pool, design, tuple(earlier), log)


def question_clusters(pipeline: Pipeline, pool: LabelPool) -> list[str] | None:
    """Return the cluster of each question of a pool; None where the experiment has none."""
    if pipeline.experiment.statistics.cluster == "none" or not pipeline.experiment.measures_texts:
        return None
    facts = counting_of(lambda key: pipeline.artifact(key).table())
    names = dict(zip(*(facts[c].to_pylist() for c in ("query_id", "cluster")), strict=True))
    return [names.get(one, one) for one in pool.question_ids]


def _items(design: Design | None) -> tuple[PooledUnit, ...]:
    return design.items if design is not None else ()


def readable_texts(pipeline: Pipeline) -> tuple[Passages, Search]:
    """Return the texts of an experiment, and the search of its first lexical retriever.

    Without one, documents are found that hold what is looked for, letter for letter.

    Raises:
        MissingArtifact: the experiment must be evaluated first.
    """
    experiment = pipeline.experiment
    documents, queries = (pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    for name, config in experiment.retrievers.items():
        if not isinstance(config, LexicalRetriever):
            continue
        searcher = config.open(pipeline.artifact(index_key(config.family, name)).folder)
        index = searcher.index if isinstance(searcher, IndexSearcher) else None
        analyzer = index.analyzer if isinstance(index, LexicalIndex) else AUTO
        chunks = pipeline.artifact(chunks_key(experiment.chunking_of(name))).table()
        columns = (chunks.column(c).to_pylist() for c in ("document_id", "start", "end"))
        spans = dict(zip(chunks.column("chunk_id").to_pylist(), map(Hit, *columns), strict=True))
        return Passages(documents, queries, analyzer), partial(_search, searcher, spans)
    passages = Passages(documents, queries)
    return passages, passages.literal


def _search(
    searcher: Searcher[Sequence[str]], spans: Mapping[str, Hit], text: str, n: int
) -> list[Hit]:
    best = searcher.search([text], n, None)[0]
    return [spans[searcher.chunk_ids[row]] for row in best.positions.tolist()]
