"""What a person wants to see on an asset and on each of its materializations.

Numbers are what the Dagster UI plots over time: the means of a cell, or of a retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.analysis.answers import threshold_sheets
from rag_assets.analysis.comparisons import robustness_sheets
from rag_assets.analysis.online import online_sheets
from rag_assets.analysis.result import LEADING, EvaluationResult
from rag_assets.analysis.studies import studies_of
from rag_assets.analysis.winner import winner_of
from rag_assets.answers.cases import ANSWER_METRICS
from rag_assets.answers.stage import metric_names
from rag_assets.answers.summary_stage import GROUPS, answer_summary
from rag_assets.engine.stage import Stage
from rag_assets.evaluation.leaderboard import splits_of, summarise
from rag_assets.evaluation.query_facts import facts_table
from rag_assets.evaluation.query_facts_stage import COUNTED, QUERY_FACTS_KEY
from rag_assets.evaluation.ties import TIES
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_record import snapshot
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.plain_text import markdown, one_line, printable
from rag_assets.report.html import REPORT_FILE
from rag_assets.schemas import QUERY_METRICS, TableSchema
from rag_assets.store.artifacts import Artifact

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
        case "calibrated_means" | "calibrated_rankings":
            rows, split = _rows_to_show(outcome.artifact.table())
            return {**_by_labels(rows, "name", "calibrated"), **split}
        case "sampled_estimates":
            return _by_labels(outcome.artifact.table().to_pylist(), "retriever", "value")
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
    experiment, facts = pipeline.experiment, pipeline.current(QUERY_FACTS_KEY)
    if facts is None:
        return {}
    tables = {experiment.answer_cells[outcome.key["answerer"]]: outcome.artifact.table()}
    names, level = metric_names(experiment), experiment.statistics.confidence
    counting = facts.table().select(COUNTED).to_pylist()
    rows, split = _rows_to_show(answer_summary(tables, counting, names, level))
    means = {str(row["metric"]): row["mean"] for row in rows if row["questions"] == GROUPS[0]}
    return {**_floats(means), **split}


def _by_labels(rows: Sequence[Mapping[str, object]], subject: str, value: str) -> Numbers:
    """Return every mean that labels gave, and how many there are."""
    labels = max((int(str(row["n_labels"])) for row in rows), default=0)
    means = _floats({f"{row[subject]}: {row['metric']}": row[value] for row in rows})
    return {**means, "labels": dg.MetadataValue.int(labels)}


def _rows_to_show(table: pa.Table) -> tuple[list[dict[str, object]], Numbers]:
    """Return the rows of the split to show, and its name."""
    splits = splits_of(table)[:1]
    rows = [row for row in table.to_pylist() if row["split"] in splits]
    return rows, {"split": dg.MetadataValue.text(splits[0])} if splits else {}


def _floats(values: Mapping[str, object]) -> Numbers:
    """Return the values that there are, as they are shown: the table has all digits."""
    rounded = {name: round(v, DIGITS) for name, v in values.items() if isinstance(v, float)}
    return {name: dg.MetadataValue.float(value) for name, value in rounded.items()}


PREVIEW_ROWS = 5
BOARD_ROWS = 100
"""Of the leaderboard more is shown: it is what people look for."""

PREVIEW_CHARACTERS = 120

Metadata = dict[str, dg.MetadataValue]


def of_asset(stage: Stage, experiment: Experiment) -> Metadata:
    """Return the metadata of a definition: what a row is, and its columns."""
    facts: Metadata = {
        "row": dg.MetadataValue.text(stage.row),
        "dagster/storage_kind": dg.MetadataValue.text("parquet" if stage.schema else "folder"),
    }
    if stage.schema is None:
        return facts
    measures: tuple[str, ...] = ()
    if stage.schema.open_columns:
        is_of_answers = stage.schema == ANSWER_METRICS
        measures = metric_names(experiment) if is_of_answers else experiment.metrics
    columns = [
        dg.TableColumn(
            column.name,
            str(column.type),
            description=column.meaning,
            constraints=dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in stage.schema.columns
    ]
    meaning = "metric; null: not defined for the query"
    columns += [dg.TableColumn(name, "double", description=meaning) for name in measures]
    schema = "columns" if stage.name == "leaderboard" else "dagster/column_schema"
    # Dagster shows its own name for it above all else, and the result of a board comes first.
    facts[schema] = dg.MetadataValue.table_schema(dg.TableSchema(columns))
    return facts


def tags_of_asset(stage: Stage, experiment: Experiment) -> dict[str, str]:
    """Return tags by which assets are searched for in the UI."""
    tags = {"rag_assets/experiment": experiment.name, "rag_assets/stage": stage.name}
    if stage.dimensions:
        tags["rag_assets/partitioned_by"] = "-".join(stage.dimensions)
    return tags


def of_materialization(
    stage: Stage, outcome: Outcome, pipeline: Pipeline
) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one partition: what is in it, how it came to be, what made it."""
    artifact = outcome.artifact
    manifest = artifact.manifest
    rows = "dagster/partition_row_count" if stage.dimensions else "dagster/row_count"
    board = result_of(pipeline) if stage.name == "leaderboard" else {}
    board |= numbers_of(stage, outcome, pipeline)
    board[rows] = dg.MetadataValue.int(manifest.rows)
    if stage.schema is not None:
        preview = _board if stage.name == "leaderboard" else _preview
        board["preview"] = preview(artifact, stage.schema)
    if stage.name == "leaderboard":
        board["report"] = dg.MetadataValue.url((pipeline.root / REPORT_FILE).as_uri())
    facts = dict(manifest.facts)
    if TIES in facts:  # a number in place of the queries that are tied at the cut
        facts["queries_tied_at_cut"] = sum(bool(n) for n in facts.pop(TIES).values())
    board |= {name: _fact(value) for name, value in facts.items()}
    board |= {
        "reused": dg.MetadataValue.bool(outcome.reused),
        "seconds": dg.MetadataValue.float(round(outcome.seconds, 4)),
        "path": dg.MetadataValue.path(artifact.path if stage.schema is None else artifact.file),
        "fingerprint": dg.MetadataValue.text(manifest.fingerprint),
        "made_from": dg.MetadataValue.json(
            {
                "config": dict(manifest.config),
                "inputs": dict(manifest.inputs),
                "versions": dict(manifest.versions),
            }
        ),
    }
    return board


def _fact(value: object) -> dg.MetadataValue:
    match value:
        case bool():
            return dg.MetadataValue.bool(value)
        case int():
            return dg.MetadataValue.int(value)
        case float():
            return dg.MetadataValue.float(value)
        case str():
            return dg.MetadataValue.text(printable(value))
        case [*items] if all(isinstance(item, str) for item in items):
            return dg.MetadataValue.md(
                "\n".join(f"- {markdown(str(item))}" for item in items) or "none"
            )
        case _:
            return dg.MetadataValue.json(value)  # type: ignore[arg-type]


def _preview(artifact: Artifact, schema: TableSchema) -> dg.MetadataValue:
    with pq.ParquetFile(artifact.file) as file:
        batch = next(file.iter_batches(batch_size=PREVIEW_ROWS), None)
        fields = list(file.schema_arrow)
    rows = batch.to_pylist() if batch is not None else []
    return _table(rows, _what_counts_first(fields, schema))


def _board(artifact: Artifact, schema: TableSchema) -> dg.MetadataValue:
    """Return the leaderboard of one split: its rows come first."""
    board = artifact.table()
    rows, _ = _rows_to_show(board)
    return _table(rows[:BOARD_ROWS], _what_counts_first(list(board.schema), schema))


def _what_counts_first(fields: Sequence[pa.Field], schema: TableSchema) -> dict[str, str]:
    """Return column -> type; key and metrics before counts, which a page would cut off."""
    declared = [column.name for column in schema.columns]
    leading = {*LEADING, *schema.key} | {f.name for f in fields if f.name not in declared}
    ordered = sorted(fields, key=lambda field: field.name not in leading)
    return {field.name: str(field.type) for field in ordered}


def _table(rows: Sequence[Mapping[str, object]], types: Mapping[str, str]) -> dg.MetadataValue:
    columns = [dg.TableColumn(name, kind) for name, kind in types.items()]
    records = [dg.TableRecord({name: _cell(row[name]) for name in types}) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float):
        return round(value, 4)
    if value is None or isinstance(value, bool | int):
        return value
    text = printable(str(value))
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[:PREVIEW_CHARACTERS]}…"


def result_of(pipeline: Pipeline) -> Metadata:
    """Return what stands above all else of a materialization of the leaderboard: who wins."""
    now = snapshot(pipeline, started=datetime.now(UTC))
    view = EvaluationResult(pipeline.root, now)
    winner = winner_of(view)
    if winner is None:
        return {"winner": dg.MetadataValue.text("No retriever has a value of the primary metric.")}
    title, *sentences = (markdown(one_line(text)) for text in (winner.title, *winner.sentences))
    text = "\n\n".join([f"**{title}**{view.of_sample}", *sentences])
    return {"winner": dg.MetadataValue.md(text), **_below_winner(view)}


def _below_winner(view: EvaluationResult) -> Metadata:
    """Return tables: a study each, perturbed queries, refusals, and users of a search."""
    tables: Metadata = {}
    every = {f"over {name}": rows for name, rows in studies_of(view).items()}
    for sheet in (*robustness_sheets(view), *threshold_sheets(view), *online_sheets(view)):
        names = [name for c in sheet.columns for name in (c.name, *(c.bounds or ()))]
        every[sheet.title] = [{name: row.get(name) for name in names} for row in sheet.rows]
    for title, rows in every.items():
        types = {name: "text" if isinstance(rows[0][name], str) else "double" for name in rows[0]}
        tables[title] = _table(rows, types)
    return tables
