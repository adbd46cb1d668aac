"""The numbers of a partition that the Dagster UI plots over time, and what they are over."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answer_metrics import answer_means
from rag_assets.answers.metrics_stage import metric_names
from rag_assets.engine.stage import Stage
from rag_assets.evaluation.leaderboard import splits_of, summarise
from rag_assets.evaluation.query_facts import facts_table
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.schemas import QUERY_METRICS

DIGITS = 6
"""Digits behind the point that are shown of a mean."""

Numbers = dict[str, dg.MetadataValue]


def numbers_of(stage: Stage, outcome: Outcome, pipeline: Pipeline) -> Numbers:
    """Return the means of a cell, or the primary measure of a retriever at each top_k.

    They are those of one split: test where the queries are split. ``split`` says which.
    """
    match stage.name:
        case "metrics":
            return _of_cell(outcome, pipeline)
        case "metrics_summary":
            measure = pipeline.experiment.primary.column
            rows, split = _rows_to_show(outcome.artifact.table())
            means = {f"{measure}@{row['top_k']}": row.get(measure) for row in rows}
            return {**_floats(means), **split}
        case "answer_metrics":
            return _of_answers(outcome, pipeline)
        case "leaderboard":
            return _rows_to_show(outcome.artifact.table())[1]
        case _:
            return {}


def _of_cell(outcome: Outcome, pipeline: Pipeline) -> Numbers:
    """Return every mean; each query counts alike while the query facts are not up to date."""
    top_k, table = int(outcome.key["top_k"]), outcome.artifact.table()
    measures = [name for name in table.column_names if name not in QUERY_METRICS.arrow().names]
    facts = pipeline.current(QUERY_FACTS_KEY)
    query_ids = table.column("query_id").to_pylist()
    counting = facts.table() if facts is not None else facts_table(query_ids, {}, {}, {}, {})
    rows, split = _rows_to_show(summarise({top_k: table}, {top_k: measures}, counting))
    return {**_floats({name: rows[0][name] for name in measures}), **split} if rows else {}


def _of_answers(outcome: Outcome, pipeline: Pipeline) -> Numbers:
    """Return the mean of every metric over the questions of the split to show."""
    table, facts = outcome.artifact.table(), pipeline.current(QUERY_FACTS_KEY)
    names = metric_names(pipeline.experiment)
    if facts is None:
        return _floats({name: one.mean for name, one in answer_means(table, names).items()})
    rows, split = _rows_to_show(facts.table().select(["query_id", "weight", "split"]))
    weights = {str(row["query_id"]): float(str(row["weight"])) for row in rows}
    own = table.filter(pc.is_in(table["query_id"], value_set=pa.array(list(weights), pa.string())))
    found = answer_means(own, names, weights)
    return {**_floats({name: one.mean for name, one in found.items()}), **split}


def _rows_to_show(table: pa.Table) -> tuple[list[dict[str, object]], Numbers]:
    """Return the rows of the split to show, and its name."""
    splits = splits_of(table)[:1]
    rows = [row for row in table.to_pylist() if row["split"] in splits]
    return rows, {"split": dg.MetadataValue.text(splits[0])} if splits else {}


def _floats(values: dict[str, object]) -> Numbers:
    """Return the values that there are, as they are shown: the table has all digits."""
    shown = {name: round(v, DIGITS) for name, v in values.items() if isinstance(v, float)}
    return {name: dg.MetadataValue.float(value) for name, value in shown.items()}
