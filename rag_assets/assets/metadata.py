"""What a person wants to see on an asset and on each of its materializations."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pyarrow.parquet as pq

from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.summary import mean
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Outcome
from rag_assets.pipeline.stage import Stage
from rag_assets.schemas import TableSchema
from rag_assets.store.artifacts import Artifact

PREVIEW_ROWS = 5
BOARD_ROWS = 100
"""Of the leaderboard more is shown: it is what people look for."""

PREVIEW_CHARACTERS = 120

Metadata = Mapping[str, dg.TableSchema | str]


def of_asset(stage: Stage, experiment: Experiment) -> Metadata:
    """Return the metadata of an asset's definition: its columns with type and meaning."""
    if stage.schema is None:
        return {"dagster/storage_kind": "folder"}
    measures = experiment.metrics if stage.schema.open_columns else ()
    columns = [*_columns(stage.schema), *(_metric_column(name) for name in measures)]
    return {"dagster/column_schema": dg.TableSchema(columns), "dagster/storage_kind": "parquet"}


def _columns(schema: TableSchema) -> list[dg.TableColumn]:
    return [
        dg.TableColumn(
            column.name,
            str(column.type),
            description=column.meaning,
            constraints=dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in schema.columns
    ]


def _metric_column(name: str) -> dg.TableColumn:
    return dg.TableColumn(name, "double", description="metric at top_k, null: not answerable")


def of_materialization(stage: Stage, outcome: Outcome) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one partition: what is in it, how it came to be, what made it."""
    artifact = outcome.artifact
    manifest = artifact.manifest
    rows = "dagster/partition_row_count" if stage.dimensions else "dagster/row_count"
    shown = _means(artifact) if stage.name == "metrics" else {}
    shown[rows] = dg.MetadataValue.int(manifest.rows)
    if stage.schema is not None:
        n_rows = BOARD_ROWS if stage.name == "leaderboard" else PREVIEW_ROWS
        shown["preview"] = _preview(artifact, n_rows)
    shown |= {name: _fact(value) for name, value in manifest.facts.items()}
    shown |= {
        "reused": dg.MetadataValue.bool(outcome.reused),
        "seconds": dg.MetadataValue.float(round(outcome.seconds, 4)),
        "path": dg.MetadataValue.path(artifact.path),
        "fingerprint": dg.MetadataValue.text(manifest.fingerprint),
        "made_from": dg.MetadataValue.json(
            {
                "config": dict(manifest.config),
                "inputs": dict(manifest.inputs),
                "versions": dict(manifest.versions),
            }
        ),
    }
    return shown


def _fact(value: object) -> dg.MetadataValue:
    match value:
        case bool():
            return dg.MetadataValue.bool(value)
        case int():
            return dg.MetadataValue.int(value)
        case float():
            return dg.MetadataValue.float(value)
        case str():
            return dg.MetadataValue.text(value)
        case [*items] if all(isinstance(item, str) for item in items):
            return dg.MetadataValue.md("\n".join(f"- {item}" for item in items) or "none")
        case _:
            return dg.MetadataValue.json(value)  # type: ignore[arg-type]


def _preview(artifact: Artifact, n_rows: int) -> dg.MetadataValue:
    with pq.ParquetFile(artifact.path) as file:
        batch = next(file.iter_batches(batch_size=n_rows), None)
        fields = list(file.schema_arrow)
    rows = batch.to_pylist() if batch is not None else []
    records = [dg.TableRecord({name: _cell(v) for name, v in row.items()}) for row in rows]
    columns = [dg.TableColumn(field.name, str(field.type)) for field in fields]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float):
        return round(value, 4)
    if value is None or isinstance(value, bool | int):
        return value
    text = str(value)
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[:PREVIEW_CHARACTERS]}…"


def _means(artifact: Artifact) -> dict[str, dg.MetadataValue]:
    """Return the mean of every metric as a number, so that the UI plots its course."""
    table = artifact.table()
    means = {
        name: mean(table.column(name).to_pylist()) for name in metric_columns(table.column_names)
    }
    return {name: dg.MetadataValue.float(m) for name, m in means.items() if m is not None}
