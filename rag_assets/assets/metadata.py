"""What a person wants to see on an asset and on each of its materializations."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pyarrow.parquet as pq

from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.evaluation.summary import mean
from rag_assets.pipeline.pipeline import Outcome
from rag_assets.pipeline.stage import Stage
from rag_assets.schemas import TableSchema
from rag_assets.store.artifacts import Artifact

PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 120

Metadata = Mapping[str, dg.MetadataValue | str | int | float | bool]


def of_asset(stage: Stage) -> Metadata:
    """Return the metadata of an asset's definition: its columns with type and meaning."""
    if stage.schema is None:
        return {"dagster/storage_kind": "folder"}
    return {"dagster/column_schema": _columns(stage.schema), "dagster/storage_kind": "parquet"}


def _columns(schema: TableSchema) -> dg.TableSchema:
    return dg.TableSchema(
        [
            dg.TableColumn(
                column.name,
                str(column.type),
                description=column.meaning,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in schema.columns
        ]
    )


def of_materialization(stage: Stage, outcome: Outcome) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one partition: how it came to be, how large, what is in it."""
    artifact = outcome.artifact
    manifest = artifact.manifest
    rows = "dagster/partition_row_count" if stage.dimensions else "dagster/row_count"
    shown: dict[str, dg.MetadataValue] = {
        rows: dg.MetadataValue.int(manifest.rows),
        "reused": dg.MetadataValue.bool(outcome.reused),
        "seconds": dg.MetadataValue.float(outcome.seconds),
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
    for name, value in manifest.facts.items():
        shown[name] = _fact(value)
    if stage.schema is not None:
        shown["preview"] = _preview(artifact)
    if stage.name == "metrics":
        shown |= _means(artifact)
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


def _preview(artifact: Artifact) -> dg.MetadataValue:
    with pq.ParquetFile(artifact.path) as file:
        batch = next(file.iter_batches(batch_size=PREVIEW_ROWS), None)
    rows = batch.to_pylist() if batch is not None else []
    records = [dg.TableRecord({name: _cell(v) for name, v in row.items()}) for row in rows]
    schema = dg.TableSchema([dg.TableColumn(f.name, str(f.type)) for f in artifact_schema(artifact)])
    return dg.MetadataValue.table(records, schema)


def artifact_schema(artifact: Artifact) -> list[pq.ColumnSchema]:
    """Return the fields of a Parquet artifact."""
    return list(pq.read_schema(artifact.path))


def _cell(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[:PREVIEW_CHARACTERS]}…"


def _means(artifact: Artifact) -> dict[str, dg.MetadataValue]:
    """Return the mean of every metric as a number, so that the UI plots its course."""
    table = artifact.table()
    means = {name: mean(table.column(name).to_pylist()) for name in table.column_names
             if name in MEASURES}
    return {name: dg.MetadataValue.float(m) for name, m in means.items() if m is not None}
