"""The SQL of the measures: one statement for the metrics that are wanted, and nothing else in it.

It reads five tables: ``runs`` (run, query_id, rank, unit_id), ``relevant_units`` (judged,
query_id, evidence_id, unit_id, grade), ``judged_by`` (run, judged), ``cutoffs`` (run, top_k) and
``queries`` (query_id); what needs sizes reads ``sizes`` (run, n_all) too. The formulas are those of
:mod:`rag_assets.evaluation.measures`. Sums of
floats are ordered by rank, so that the last bit does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.evaluation.measures import OWN_MEASURES, GainMeasure, GroupMeasure, RelevanceMeasure
from rag_assets.evaluation.metric_names import Metric, parameters_of

_GAINS = {cls.name: cls for cls in OWN_MEASURES if issubclass(cls, GainMeasure)}
_LEVELS = {cls.name: cls for cls in OWN_MEASURES if issubclass(cls, RelevanceMeasure)}
"""Over relevant units or evidences in the first top_k, at relevance level {rel}."""

_LABELS = """
questions AS (
    SELECT run, query_id, row_number() OVER ()::INTEGER AS q FROM judged_by CROSS JOIN queries
), labels AS (
    SELECT run, q, query_id, evidence_id, unit_id, grade
    FROM relevant_units JOIN judged_by USING (judged) JOIN questions USING (run, query_id)
), matched AS (
    SELECT run, q, rank, evidence_id, grade
    FROM runs JOIN labels USING (run, query_id, unit_id)
), evidences AS (
    SELECT run, q, evidence_id, max(grade) AS grade, count(unit_id) = 0 AS unreachable
    FROM labels WHERE grade > 0 GROUP BY ALL
), wanted AS (
    SELECT run, q, {relevant}, count(*) FILTER (unreachable) AS n_unreachable
    FROM evidences GROUP BY ALL
), units AS (
    SELECT run, q, rank, max(grade) AS best
    FROM matched WHERE grade >= 0 GROUP BY ALL
), judged_units AS (
    SELECT run, q, top_k, count(*) AS n_judged
    FROM units JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), retrieved AS (
    SELECT run, query_id, top_k, count(*) AS n_retrieved
    FROM runs JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)"""

# gain(i): the highest grade among the evidences first satisfied at rank i.
_EARNINGS = """
found_first AS (
    SELECT run, q, evidence_id, min(rank) AS rank, arg_min(grade, rank) AS grade
    FROM matched WHERE grade > 0 GROUP BY ALL
), earnings AS (
    SELECT run, q, rank, max(grade) AS grade FROM found_first GROUP BY ALL
), gains AS (
    SELECT run, q, top_k, {sums}
    FROM earnings JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), ideal_ranks AS (
    SELECT run, q, grade,
           row_number() OVER (PARTITION BY run, q ORDER BY grade DESC) AS rank
    FROM evidences
), ideals AS (
    SELECT run, q, top_k, {ideals}
    FROM ideal_ranks JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)"""

# nth and n_bad count the relevant and the judged non-relevant units so far.
_LEVEL = """
first_{rel} AS (
    SELECT run, q, rank, count(*) AS n_new FROM (
        SELECT run, q, evidence_id, min(rank) AS rank
        FROM matched WHERE grade >= {rel} GROUP BY ALL
    ) GROUP BY ALL
), numbered_{rel} AS (
    SELECT *, count(*) FILTER (best >= {rel}) OVER so_far AS nth,
           count(*) FILTER (best < {rel}) OVER so_far AS n_bad
    FROM units WINDOW so_far AS (PARTITION BY run, q ORDER BY rank)
), bad_{rel} AS (
    SELECT run, q, count(*) AS bad FROM (
        SELECT run, q, unit_id, max(grade) AS grade
        FROM labels WHERE grade >= 0 AND unit_id IS NOT NULL GROUP BY ALL
        UNION ALL
        SELECT run, q, NULL, max(grade) FROM labels WHERE grade >= 0
        GROUP BY run, q, evidence_id HAVING count(unit_id) = 0
    ) WHERE grade < {rel} GROUP BY ALL
), relevant_{rel} AS (
    SELECT run, q, rank, nth, n_bad, bad, coalesce(n_new, 0) AS n_new, r_{rel} AS r
    FROM numbered_{rel}
    JOIN wanted USING (run, q)
    LEFT JOIN first_{rel} USING (run, q, rank)
    LEFT JOIN bad_{rel} USING (run, q)
    WHERE best >= {rel}
), level_{rel} AS (
    SELECT run, q, top_k, {sums}
    FROM relevant_{rel} JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)"""

_GROUPS = """
group_units AS (
    SELECT run, q, evidence_id, rank, grade,
           row_number() OVER (PARTITION BY run, q, evidence_id ORDER BY rank) AS nth
    FROM matched WHERE grade > 0
), group_firsts AS (
    SELECT run, q, rank, grade,
           row_number() OVER (
               PARTITION BY run, q ORDER BY rank, grade DESC, evidence_id
           ) AS nth_group
    FROM group_units WHERE nth = 1
), group_sums AS (
    SELECT run, q, top_k,
           sum(1 / rank ORDER BY nth_group) AS group_reciprocals,
           sum(grade / log2(greatest(rank, nth_group) + 1) ORDER BY nth_group)
               FILTER (nth_group <= top_k) AS group_dcg
    FROM group_firsts JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), group_means AS (
    SELECT run, q, top_k, evidence_id, sum(nth / rank ORDER BY rank) / count(*) AS precision
    FROM group_units JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), group_mean_sums AS (
    SELECT run, q, top_k, sum(precision ORDER BY evidence_id) AS group_precisions
    FROM group_means GROUP BY ALL
)"""

_SELECT = """
SELECT run, top_k, query_id,
       coalesce(r_1, 0)::INTEGER AS n_relevant,
       coalesce(n_unreachable, 0)::INTEGER AS n_unreachable,
       coalesce(n_retrieved, 0)::INTEGER AS n_retrieved,
       coalesce(n_judged, 0)::INTEGER AS n_judged,
       NULL::INTEGER AS ties_at_cut,
       false AS failed,
       NULL::BIGINT AS tokens, NULL::BIGINT[] AS unit_tokens{columns}
FROM (SELECT run, top_k, query_id, q FROM cutoffs JOIN questions USING (run))
LEFT JOIN retrieved USING (run, query_id, top_k)
LEFT JOIN wanted USING (run, q)
{joins}
ORDER BY run, top_k, query_id
"""


def metrics_statement(metrics: Sequence[Metric]) -> str:
    """Return the statement that computes the metrics of all queries, runs and cut-offs.

    Its result has ``run``, ``top_k``, ``query_id``, the counts of query metrics and a column a
    metric, sorted by run, top_k and query. The cut-offs of ``metrics`` are not read; ties, which a
    run that was cut does not show, are counted by :mod:`rag_assets.evaluation.ties`.
    """
    levels = sorted({_level(metric) for metric in metrics if metric.measure in _LEVELS})
    relevant = [f"count(*) FILTER (grade >= {rel}) AS r_{rel}" for rel in sorted({1, *levels})]
    tables = [_LABELS.format(relevant=", ".join(relevant))]
    joined = ["judged_units"]
    measures = {metric.measure for metric in metrics}
    if measures & {*_GAINS, "err", "group_ndcg"}:
        tables.append(_earnings(metrics))
        joined += ["gains", "ideals"]
    if any(issubclass(_LEVELS[name], GroupMeasure) for name in measures & {*_LEVELS}):
        tables.append(_GROUPS)
        joined += ["group_sums", "group_mean_sums"]
    for rel in levels:
        tables.append(_level_tables(rel, metrics))
        joined.append(f"level_{rel}")
    columns = [f',\n       {_value(metric)} AS "{metric.column}"' for metric in metrics]
    joins = [f"LEFT JOIN {table} USING (run, q, top_k)" for table in joined]
    is_sized = any(_LEVELS[name].needs_size for name in measures & {*_LEVELS})
    joins += ["LEFT JOIN sizes USING (run)"] if is_sized else []
    select = _SELECT.format(columns="".join(columns), joins="\n".join(joins))
    return f"WITH {','.join(tables)}{select}"


def _value(metric: Metric) -> str:
    """Return the value of a query: null when it has no relevant judgment, 0 when it finds none."""
    if metric.measure == "judged":
        return "CASE WHEN r_1 > 0 THEN coalesce(n_judged, 0) / n_retrieved END"
    return f"CASE WHEN r_1 > 0 THEN coalesce({_formula(metric)}, 0)::DOUBLE END"


def _formula(metric: Metric) -> str:
    if metric.measure in _GAINS:
        return _GAINS[metric.measure].sql.format(name=metric.measure)
    if metric.measure == "err":
        # From the last rank to the first: what is gained here, or else further down.
        satisfied = f"(pow(2, x.grade) - 1) / pow(2, {metric.parameter('gmax')})"
        steps = f"list_transform(gained, lambda x: {{'v': {satisfied} / x.rank, 's': {satisfied}}})"
        return f"list_reduce({steps}, lambda a, x: {{'v': x.v + (1 - x.s) * a.v, 's': x.s}}).v"
    return _filled(_LEVELS[metric.measure].sql, metric)


def _earnings(metrics: Sequence[Metric]) -> str:
    measures = {metric.measure for metric in metrics}
    measures |= {"ndcg"} if "group_ndcg" in measures else set()
    discounted = [
        (name, f"sum({measure.gain} / {measure.discount} ORDER BY rank)")
        for name, measure in _GAINS.items()
        if name in measures
    ]
    sums = [f"{value} AS dcg_{name}" for name, value in discounted]
    ideals = [f"{v} AS ideal_{name}" for name, v in discounted if "ideal_" in _GAINS[name].sql]
    if "err" in measures:
        sums.append("list({'rank': rank, 'grade': grade} ORDER BY rank DESC) AS gained")
    return _EARNINGS.format(sums=", ".join(sums), ideals=", ".join(ideals or ["1"]))


def _level_tables(rel: int, metrics: Sequence[Metric]) -> str:
    here = [m for m in metrics if m.measure in _LEVELS and _level(m) == rel]
    sums = [f"count(*) AS n_units_{rel}, min(rank) AS first_{rel}, sum(n_new) AS n_found_{rel}"]
    sums += [_filled(_LEVELS[m.measure].sums, m) for m in here if _LEVELS[m.measure].sums]
    return _LEVEL.format(rel=rel, sums=", ".join(sums))


def _level(metric: Metric) -> int:
    return int(dict(metric.params).get("rel", 1))


def _filled(template: str, metric: Metric) -> str:
    names = set(parameters_of(metric.measure)) - {"rel"}
    numbers = {name: f"{metric.parameter(name)!r}::DOUBLE" for name in names}
    return template.format(rel=_level(metric), column=metric.column, **numbers)
