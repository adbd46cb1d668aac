"""A made collection: systems that rank documents of known relevance, some better than others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import LoggedJudgment
from rag_assets.labels.pool import Flags, Floats, LabelPool, PooledUnit, label_pool
from rag_assets.labels.sampling.confidence_sequence import course_of
from rag_assets.labels.sampling.design import Design, new_design
from rag_assets.labels.sampling.label_sample import LabelSample

DCG, PRECISION = Metric("dcg", 10), Metric("precision", 10)
LENGTH = 100


def run(rankings: dict[str, list[str]]) -> pa.Table:
    rows = [(q, unit, rank) for q, units in rankings.items() for rank, unit in enumerate(units, 1)]
    query_ids, unit_ids, ranks = zip(*rows, strict=True)
    return pa.table({"query_id": query_ids, "unit_id": unit_ids, "rank": pa.array(ranks)})


def passages(
    runs: Mapping[str, pa.Table], spans: Mapping[str, Mapping[str, tuple[str, int, int]]]
) -> dict[str, pa.Table]:
    names = ("query_id", "rank", "document_id", "start", "end")
    tables = {}
    for system, table in runs.items():
        columns = (table[name].to_pylist() for name in ("query_id", "unit_id", "rank"))
        rows = [
            (query_id, rank, *spans[system][unit_id])
            for query_id, unit_id, rank in zip(*columns, strict=True)
            if unit_id in spans[system]
        ]
        tables[system] = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    return tables


def chosen(design: Design, flags: Flags) -> list[PooledUnit]:
    return [design.items[number] for number in np.flatnonzero(flags).tolist()]


def drawn_line(unit: PooledUnit, grade: int, seconds: float | None = None) -> LoggedJudgment:
    return LoggedJudgment(*unit, grade, probability=0.5, seconds=seconds)


def whole(
    runs: dict[str, dict[str, list[str]]], depth: int = 10, lengths: Mapping[str, int] = {}
) -> LabelPool:
    """Return the pool of whole documents, of ``LENGTH`` characters unless they have another one."""
    units = {unit for one in runs.values() for units in one.values() for unit in units}
    spans = {unit: (unit, 0, lengths.get(unit, LENGTH)) for unit in units}
    questions = sorted({query for one in runs.values() for query in one})
    tables = {name: run(one) for name, one in runs.items()}
    return label_pool(passages(tables, dict.fromkeys(runs, spans)), questions, depth)


def collection(
    n_questions: int = 60, noises: tuple[float, ...] = (0.8, 0.9, 1.0, 1.1, 1.4, 2.0)
) -> tuple[LabelPool, Floats]:
    """Return a pool of systems of growing noise, and the truth: a fifth of 40 documents."""
    generator = np.random.default_rng(11)
    runs: dict[str, dict[str, list[str]]] = {f"s{n}": {} for n in range(len(noises))}
    relevant = set()
    for question in range(n_questions):
        labels = generator.random(40) < 0.2
        relevant |= {(f"q{question:03}", f"d{n}") for n in np.flatnonzero(labels)}
        shared = generator.normal(size=40)
        for number, noise in enumerate(noises):
            scores = labels + noise * (shared + generator.normal(size=40)) / 2
            best = np.argsort(-scores)[:10]
            runs[f"s{number}"][f"q{question:03}"] = [f"d{n}" for n in best]
    pool = whole(runs)
    return pool, np.array([float(item[:2] in relevant) for item in pool.items])


def design_of(pool: LabelPool, generator: np.random.Generator | None = None) -> Design:
    """Return the design of a pool, with other random numbers where a generator is given."""
    design = new_design(pool.items, pool.weights(DCG))
    if generator is None:
        return design
    return replace(design, numbers=generator.exponential(size=len(pool.items)))


def asked(
    pool: LabelPool, labels: Floats, design: Design, n: int, answered: Flags | None = None
) -> LabelSample:
    """Return the sample after ``n`` items; what was not answered was skipped."""
    touched = np.zeros(len(labels), np.bool_)
    touched[design.order()[:n]] = True
    judged = touched if answered is None else touched & answered
    nothing = np.zeros_like(touched)
    return LabelSample(pool, design, np.where(judged, labels, np.nan), nothing, nothing, touched)


def item(query: str, document: str, start: int = 0, end: int = LENGTH) -> PooledUnit:
    return PooledUnit(query, document, start, end)


def looks(
    sample: LabelSample, metric: Metric, contrasts: Floats, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the bounds after each judgment, shape (contrasts, judgments)."""
    course = course_of(sample, metric, contrasts, 1 - level)
    return course.lows[:, 1:], course.highs[:, 1:]
