"""Scores a run against labels as trec_eval does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from secrets import token_hex
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.called.code import version_of_loaded
from rag_assets.errors import UsageError
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.measure import OWN, FunctionMeasure, JudgedRanking, RankedMetric
from rag_assets.evaluation.measures import Judged, ReciprocalRank
from rag_assets.evaluation.metric_names import (
    ALIASES,
    CONTEXT_MEASURES,
    MEASURES,
    Metric,
    needs_cutoff,
    parse_metric,
    refuse_function,
    shown_name,
)
from rag_assets.evaluation.metrics import WHOLE_RANKING, judged_rankings, query_metrics
from rag_assets.evaluation.run_files import ranked
from rag_assets.evaluation.ties import tied_at_cut
from rag_assets.evaluation.trec_measures import (
    GEOMETRIC,
    LISTS,
    NO_METRICS,
    QUERIES,
    SINGLE,
    geometric_mean,
)
from rag_assets.plain_text import one_line
from rag_assets.schemas import RELEVANT_UNITS

Number = TypeVar("Number", int, float)

Row = dict[str, object]

Named = str | RankedMetric


@dataclass(frozen=True)
class Scores:
    """Values of one run under the names that were asked for.

    Attributes:
        means: metric name -> mean, over answerable queries or, as trec_eval -c does, over all
            queries of the qrels; None without such a query. The sum where trec_eval's name of a
            count was given.
        per_query: one mapping a query of the qrels, with ``query_id`` and a value a metric; None
            for a query without a relevant document, or 0 where it counts 0.
        n_queries: the denominator of the means.
        n_unanswerable: queries of the qrels without a relevant document.
        n_missing: answerable queries that the run lacks; they count 0.
        n_unjudged_queries: queries of the run that the qrels lack; they are not scored.
        n_tied: cut-off -> answerable queries in which tied units stand on both sides of it.
    """

    means: dict[str, float | None]
    per_query: list[Row] = field(repr=False)
    n_queries: int
    n_unanswerable: int
    n_missing: int
    n_unjudged_queries: int
    n_tied: dict[int, int] = field(default_factory=dict)


def score(
    run: pa.Table, judgments: pa.Table, metrics: Sequence[Named], *, trec_mean: bool = False
) -> Scores:
    """Score a run against judgments (a table of relevant units).

    Args:
        run: a table of runs.
        judgments: a table of relevant units.
        metrics: names in any vocabulary, echoed as :func:`shown_name` has them; names of
            :mod:`rag_assets.evaluation.trec_measures`; and functions of (the grades of the ranked
            units, None: not judged; R), under their own names.
        trec_mean: average over every query of the qrels; one without a relevant document counts 0.
            ``judged`` has no value where nothing is retrieved.

    Raises:
        UsageError: a metric is unknown, needs texts, or divides by the cut-off and has none.
    """
    named = list(_names(metrics))
    by_name = {
        name: checked_metric(GEOMETRIC.get(name, name))
        for name, one in named
        if one is None and name not in SINGLE and name != QUERIES
    }
    wanted = list(by_name.values()) or [Metric(ReciprocalRank.name)]
    cells = [("run", depth) for depth in sorted(set(map(_depth, wanted)))]
    ids = pa.table({"query_id": pc.unique(judgments["query_id"])})
    labels, judged_by = {"qrels": judgments}, {"run": "qrels"}
    of_cells = query_metrics({"run": run}, labels, judged_by, ids, cells, wanted)
    tables = {depth: of_cells["run", depth] for _, depth in cells}
    counts = next(iter(tables.values()))
    answerable = counts.filter(pc.greater(counts["n_relevant"], 0))["query_id"]
    queries = counts["query_id"].to_pylist()
    rankings: Sequence[JudgedRanking] = []
    if any(name not in by_name for name, _ in named):
        whole = [("run", WHOLE_RANKING)]
        ((_, rankings),) = judged_rankings({"run": run}, judgments, queries, whole)
    columns = {
        name: tables[_depth(by_name[name])][by_name[name].column].to_pylist()
        if name in by_name
        else _values(name, one, rankings)
        for name, one in named
    }
    if trec_mean:
        for name in columns:
            if name == QUERIES:
                columns[name] = [1.0] * counts.num_rows
            elif name not in by_name or by_name[name].measure != Judged.name:
                columns[name] = [value or 0.0 for value in columns[name]]
    rows = zip(queries, *columns.values(), strict=True)
    return Scores(
        means={
            name: fsum(v or 0.0 for v in values)
            if _is_sum(name)
            else geometric_mean([v for v in values if v is not None])
            if name in GEOMETRIC
            else mean(values)
            for name, values in columns.items()
        },
        per_query=[dict(zip(("query_id", *columns), row, strict=True)) for row in rows],
        n_queries=counts.num_rows if trec_mean else len(answerable),
        n_unanswerable=counts.num_rows - len(answerable),
        n_missing=_count_not_in(answerable, run["query_id"]),
        n_unjudged_queries=_count_not_in(pc.unique(run["query_id"]), judgments["query_id"]),
        n_tied={
            k: len(set(answerable.to_pylist()) & tied_at_cut(run, k, ends_known=True).keys())
            for k in tables
            if k != WHOLE_RANKING
        },
    )


def _names(metrics: Sequence[Named]) -> Iterator[tuple[str, RankedMetric | None]]:
    """Yield each metric's name as it is echoed, and the function that it is, if it is one."""
    seen: set[str] = set()
    for metric in metrics:
        if not isinstance(metric, str):
            name = getattr(metric, "__name__", type(metric).__name__)
            if name in seen:
                raise UsageError(f"two metrics have the name '{name}'; name a function by `def`")
            seen.add(name)
            yield name, metric
            continue
        for name in LISTS.get(metric, (metric,)):
            is_ours = name not in SINGLE and name not in GEOMETRIC and name != QUERIES
            yield (shown_name(name) if is_ours else name), None


def function_measures(metrics: Sequence[Named]) -> dict[str, FunctionMeasure]:
    """Return functions as measures of an evaluation, by the names that these have there.

    The source of a function made while a program runs is not known: each evaluation calls it again.

    Raises:
        UsageError: one is no function, has no name or one that is taken.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        raise UsageError(f"metrics is {metrics!r:.60}; expected a list of functions")
    measures = {}
    for name, function in _names(metrics):
        is_taken = name in {*MEASURES, *ALIASES, *NO_METRICS}
        if not callable(function) or is_taken or not re.fullmatch("[a-z_]+", name):
            expected = "functions by `def`, in small letters and underscores"
            hint = "the name of a metric that exists goes into `settings`, or the experiment.yaml"
            raise UsageError(f"metrics has '{name}'; expected {expected}; {hint}")
        version = version_of_loaded(function) or token_hex()
        measures[OWN + name] = FunctionMeasure(function=function, version=version)
    return measures


def _values(
    name: str, one: RankedMetric | None, rankings: Sequence[JudgedRanking]
) -> list[float | None]:
    """Return the values of the queries by a function, or by a measure of trec_eval.

    Raises:
        UsageError: a function fails, or gives no finite number.
    """
    values: list[float | None] = []
    for ranking in rankings:
        r = len(ranking.evidences)
        if name == QUERIES and one is None:
            values.append(1.0 if r else None)
        elif not r and not (one is None and _is_sum(name)):
            values.append(None)
        else:
            values.append(_called(one or SINGLE[name], name, ranking.labels(), r))
    return values


def _called(one: RankedMetric, name: str, ranked: list[int | None], r: int) -> float:
    try:
        value = float(one(ranked, r))
    except Exception as error:  # whatever the function does
        raise UsageError(f"metric '{name}' failed: {type(error).__name__}: {error}") from error
    if not isfinite(value):
        raise UsageError(f"metric '{name}' must be a finite number; found {value!r}")
    return value


def checked_metric(name: str) -> Metric:
    """Return a metric that a run file can be scored by."""
    metric = parse_metric(name)
    refuse_function(metric)
    if metric.measure in CONTEXT_MEASURES:
        raise UsageError(f"metric '{name}' needs texts and answers; a run file has neither")
    if needs_cutoff(metric.measure) and metric.cutoff is None:
        raise UsageError(f"metric '{name}' needs a cut-off, such as {name}@10")
    return metric


def nothing_shared(run: pa.Table, judgments: pa.Table) -> str | None:
    """Return why no hit can be right: ids of one file are not in the other; None: some are."""
    for column, noun in (("query_id", "query"), ("unit_id", "document")):
        ours, theirs = (pc.unique(table[column].drop_null()) for table in (run, judgments))
        if len(ours) and len(theirs) and _count_not_in(ours, theirs) == len(ours):
            here, there = (one_line(ids[0].as_py()) for ids in (ours, theirs))
            problem = f"no {noun} of the run is in the qrels"
            return f"{problem}: the run has '{here}', they have '{there}'"
    return None


def _depth(metric: Metric) -> int:
    return metric.cutoff or WHOLE_RANKING


def _is_sum(name: str) -> bool:
    """Return whether trec_eval prints the sum under this name: it is that of a count."""
    return name.strip().lower().startswith("num_")


def _count_not_in(values: pa.ChunkedArray | pa.Array, others: pa.ChunkedArray) -> int:
    """Return how many of the values are not among the others."""
    inside = pc.sum(pc.is_in(values, value_set=pc.unique(others))).as_py() or 0
    return len(values) - int(inside)


Run = Mapping[Any, Mapping[Any, float] | Sequence[Any]]
"""Query id -> document id -> score, or a list of document ids, best first; texts or integers."""

Qrels = Mapping[Any, Mapping[Any, int] | Iterable[Any]]
"""Query id -> document id -> grade, or the ids of relevant documents."""


def metrics(run: Run, qrels: Qrels, names: Sequence[Named], *, trec_mean: bool = False) -> Scores:
    """Score a run that is a dict, as ranx and pytrec_eval take it.

    Args:
        run: query id -> document id -> score; or -> a list of document ids, best first. Documents
            with equal scores are in the order of trec_eval.
        qrels: query id -> document id -> grade; or -> the ids of relevant documents.
        names: of metrics, such as ``["ndcg@10", "mrr", "recall@100"]``, in our vocabulary, that
            of ir_measures or that of trec_eval; or functions of (grades of the ranked documents,
            None: not judged; number of relevant documents).
        trec_mean: average over every query of the qrels, as ``trec_eval -c`` does; without it, over
            those with a relevant document.

    Returns:
        ``scores.means`` is name -> mean in [0, 1], ``scores.per_query`` a dict a query.

    Raises:
        UsageError: something is no run, no qrels or no metric; says what is expected.
    """
    if isinstance(names, str):
        raise UsageError(f"names is a text, {names!r:.60}; expected a list, such as ['ndcg@10']")
    scores = _by_query("run", run, "scores, or a list of document ids, best first")
    grades = _by_query("qrels", qrels, "grades, or the ids of relevant documents")
    rows: list[dict[str, object]] = [
        {"query_id": query, "evidence_id": item, "unit_id": item, "grade": _grade(query, item, v)}
        for query, items in grades.items()
        for item, v in items.items()
    ]
    if not rows:
        raise UsageError("qrels holds no judgment; expected a dict of query id to document id")
    table = ranked(
        {q: {item: _score(q, item, v) for item, v in rows.items()} for q, rows in scores.items()}
    )
    return score(table, RELEVANT_UNITS.from_rows(rows), names, trec_mean=trec_mean)


def _by_query(name: str, given: object, values: str) -> dict[str, dict[str, object]]:
    """Return query id -> document id -> number; a list becomes falling numbers, or 1 in qrels."""
    expected = f"expected a dict of query id to a dict of document id to {values}"
    if not isinstance(given, Mapping):
        raise UsageError(f"{name} is {type(given).__name__} {given!r:.60}; {expected}")
    by_query: dict[str, dict[str, object]] = {}
    for query, rows in given.items():
        place = f"{name}[{query!r}]"
        if isinstance(rows, Mapping):
            by_query[_id(name, query)] = {_id(place, item): value for item, value in rows.items()}
            continue
        if isinstance(rows, str) or not isinstance(rows, Iterable):
            raise UsageError(f"{place} is {type(rows).__name__} {rows!r:.60}; {expected}")
        ids = [_id(place, item) for item in rows]
        twice = next((item for item in ids if ids.count(item) > 1), None)
        if twice is not None:
            raise UsageError(f"{place} holds '{twice}' twice; a document is retrieved once")
        numbers = (1 / rank if name == "run" else 1 for rank in range(1, len(ids) + 1))
        by_query[_id(name, query)] = dict(zip(ids, numbers, strict=True))
    return by_query


def _id(place: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{place} has the id {value!r:.60}; an id is a text or a whole number")
    return value


def _number(value: Any, kind: type[Number]) -> Number | None:  # noqa: ANN401
    try:
        return None if isinstance(value, str | bool) else kind(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _score(query: str, item: str, value: Any) -> float:  # noqa: ANN401
    number = _number(value, float)
    if number is None or not isfinite(number):
        problem = f"run['{query}']['{item}'] is {value!r:.40}; a score is a finite number"
        raise UsageError(problem)
    return number


def _grade(query: str, item: str, value: Any) -> int:  # noqa: ANN401
    grade = _number(value, int)
    if grade is None or grade != value or abs(grade) >= 2**31:
        raise UsageError(f"qrels['{query}']['{item}'] is {value!r:.40}; a grade is a whole number")
    return grade
