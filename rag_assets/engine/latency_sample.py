"""What a single query takes, from its text to its hits: a sample, one query at a time.

The sample is the same for all retrievers of an experiment, so times of the same query can be added:
the latency of an embedding retriever is that of encoding the query and of the search, the latency
of a fusion that of its inputs, one after the other, and of fusing. What a server did (rewriting,
encoding, reranking) is not done again, which would cost money: its times are those of the requests
when they were made. Where one part was never measured, there is no latency.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, Unpack

import numpy as np
import pyarrow as pa

from rag_assets.engine.measurements import Details
from rag_assets.engine.stage_context import Need, Part, Ranker, StageContext, Times
from rag_assets.store.artifacts import ArtifactKey

Value = TypeVar("Value")

LATENCY = "latency"
CELL = "cell"
STEP = "step"
QUERIES_KEY = ArtifactKey.of("queries")

BUDGET_SECONDS = 1.0
"""A sample ends when it took so long, with fewer queries than were asked for."""


def measure_latency(
    context: StageContext, ranker: Ranker, need: Need, fingerprint: str, served: Part | None = None
) -> None:
    """Time a sample of queries one at a time, and keep what is found for a ranking.

    A retriever with a ranking a cell (``candidates: top_k``) is timed at the largest cut-off only.
    ``served`` is what a server took to rank; None: nothing was asked of one, so it is timed here,
    once for all rankings whose time is the same.
    """
    experiment, (retriever, top_k, _) = context.experiment, need
    candidates = getattr(experiment.retrievers[retriever], "candidates", None)
    sample = timed_queries(context)
    if not sample or (candidates == "top_k" and top_k != max(experiment.top_k)):
        return
    step = ranker.step_timed_once(context, retriever, top_k)
    part = served or (kept_part(context, STEP, step) if step else None)
    search = None if part else ranker.searcher(context, need, sample)
    if search is not None:
        part = Part(time_each(sample, search))
        if step is not None:
            keep_part(context, STEP, step, part, asset="rankings", retriever=retriever)
    before = ranker.parts_before(context, retriever, top_k) if part else None
    if part is not None and before is not None:
        details: Details = {"asset": "rankings", "retriever": retriever, "cached": False}
        keep_part(context, LATENCY, fingerprint, added([part, *before]), **details)


def measure_cell(
    context: StageContext, ranker: Ranker, need: Need, fingerprint: str, ranking: str
) -> None:
    """Time the same sample at the cut-off of a cell, and keep what is found for the cell.

    Only what searches no deeper for a lower cut-off is timed: a base retriever, or one that reads
    lists already cut. Any other does the same for each of its cells, and so does a server: their
    time is that of the ranking. Arguments as for :func:`measure_latency`, ``fingerprint`` of the
    cell and ``ranking`` of the ranking that it is cut from.
    """
    (retriever, top_k, _), sample = need, timed_queries(context)
    if not sample or kept_part(context, CELL, fingerprint) is not None:
        return
    whole = None
    if getattr(context.experiment.retrievers[retriever], "candidates", "top_k") == "top_k":
        search = ranker.searcher(context, need, sample)
        before = ranker.parts_before(context, retriever, top_k)
        if search is not None and before is not None:
            whole = added([Part(time_each(sample, search)), *before])
    whole = whole or kept_part(context, LATENCY, ranking)
    if whole is not None:
        keep_part(context, CELL, fingerprint, whole, asset="runs", retriever=retriever)


def keep_part(
    context: StageContext, what: str, fingerprint: str, part: Part, **details: Unpack[Details]
) -> None:
    """Keep what was measured; nothing where no query was timed."""
    times, n = part.times, len(part.times)
    if times:
        p50, p95, p99 = map(float, np.percentile(list(times.values()), [50, 95, 99]))
        more: Details = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "samples_ms": dict(times)}
        more |= {"cost": None if part.cost is None else part.cost * n, **details}
        context.measurements.add(what, fingerprint, sum(times.values()) / 1000, n, **more)


def kept_part(context: StageContext, what: str, fingerprint: str) -> Part | None:
    """Return what was kept."""
    sample = context.measurements.find(what, fingerprint)
    if not sample or not sample["samples_ms"] or not sample["amount"]:
        return None
    cost = sample["cost"]
    return Part(sample["samples_ms"], None if cost is None else cost / sample["amount"])


def timed_queries(context: StageContext) -> list[str]:
    """Return the queries of an experiment that are timed one at a time."""
    size = context.experiment.config.measurements.latency_sample
    if not size:
        return []
    queries = context.artifact(QUERIES_KEY).table()
    return sample_of(queries.column("query_id").to_pylist(), size)


def values_by_query(
    query_ids: pa.ChunkedArray, values: Iterable[Value]
) -> Mapping[str, list[Value]]:
    """Return query -> its values, one a variant."""
    by_query: dict[str, list[Value]] = {}
    for query_id, value in zip(query_ids.to_pylist(), values, strict=True):
        by_query.setdefault(query_id, []).append(value)
    return by_query


def sample_of(query_ids: Iterable[str], size: int) -> list[str]:
    """Return ``size`` queries, or all when there are fewer; the order is random but fixed.

    Those with the smallest hashes are taken, so that a query more or less changes one of them at
    most.
    """
    unique = dict.fromkeys(query_ids)
    by_hash = sorted(unique, key=lambda query: hashlib.sha256(f"0\0{query}".encode()).digest())
    return by_hash[:size]


def time_each(query_ids: Sequence[str], work: Callable[[str], object]) -> Times:
    """Call ``work`` for one query after the other until all are done or the budget is used up.

    The first query is done once before, untimed: it pays for what is loaded at first use.
    """
    times: dict[str, float] = {}
    for query_id in query_ids[:1]:
        work(query_id)
    started = time.perf_counter()
    for query_id in query_ids:
        before = time.perf_counter()
        work(query_id)
        after = time.perf_counter()
        times[query_id] = 1000 * (after - before)
        if after - started > BUDGET_SECONDS:
            break
    return times


def added(parts: Sequence[Part]) -> Part:
    """Return the sums over the queries that all parts have."""
    times = [part.times for part in parts]
    common = [query for query in times[0] if all(query in part for part in times)] if times else []
    costs = [part.cost for part in parts if part.cost is not None]
    return Part(
        {query: sum(part[query] for part in times) for query in common},
        sum(costs) if len(costs) == len(parts) else None,
    )


def without(whole: Part, parts: Sequence[Part]) -> Part:
    """Return a sum without some of its parts."""
    times, cost = dict(whole.times), whole.cost
    for part in parts:
        times = {q: ms - part.times[q] for q, ms in times.items() if q in part.times}
        cost = None if cost is None or part.cost is None else cost - part.cost
    return Part(times, cost)
