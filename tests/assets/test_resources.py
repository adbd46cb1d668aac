"""An experiment in a code location of a team: its tables are inputs of the team's own assets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rag_assets
from rag_assets.assets.instance import open_instance
from rag_assets.errors import StoreError
from tests.dagster_state import QUIET, evaluate_now
from tests.tiny_experiment import Tiny


def reader(asset: str, kind: Any, seen: list[Any]) -> dg.AssetsDefinition:
    """An asset of a team that reads one of the experiment."""

    def body(table: Any) -> None:
        seen.append(table)

    body.__annotations__["table"] = kind
    return dg.asset(name=f"reads_{asset}", ins={"table": dg.AssetIn(["tiny", asset])})(body)


def read(tiny: Tiny, asset: str, kind: Any) -> Any:
    """What a team's asset is given; raises what its run failed with."""
    seen: list[Any] = []
    place = rag_assets.RagAssets(store=str(tiny.settings.store))
    defs = dg.Definitions.merge(
        rag_assets.build_defs(tiny.folder, store=place),
        dg.Definitions(assets=[reader(asset, kind, seen)], executor=dg.in_process_executor),
    )
    with open_instance(tiny.settings) as instance:
        defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(f"reads_{asset}")], run_config=QUIET
        )
    return seen[0]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (pa.Table, lambda table: table.column_names),
        (Any, lambda table: table.column_names),
        (pd.DataFrame, list),
        (pl.DataFrame, lambda frame: frame.columns),
        (duckdb.DuckDBPyRelation, lambda relation: relation.columns),
    ],
)
def test_a_table_comes_as_its_annotation_says(tiny: Tiny, kind: Any, columns: Any) -> None:
    table = read(tiny, "metrics_summary", kind)
    assert kind is Any or isinstance(table, kind)
    assert columns(table)[:3] == ["retriever", "split", "top_k"]


def test_partitions_are_one_table_or_one_for_each_key_and_an_index_is_a_folder(tiny: Tiny) -> None:
    cells = [("bm25", 3), ("bm25", 5)]
    together = read(tiny, "metrics", pa.Table)
    apart = read(tiny, "metrics", dict[str, pa.Table])
    assert {
        *zip(together["retriever"].to_pylist(), together["top_k"].to_pylist(), strict=True)
    } >= {*cells}
    assert sum(map(len, apart.values())) == len(together)
    for name, top_k in cells:
        rows = [
            row for row in together.to_pylist() if (row["retriever"], row["top_k"]) == (name, top_k)
        ]
        lead = ("retriever", "top_k")
        assert apart[f"{name}|{top_k}"].to_pylist() == [
            {key: value for key, value in row.items() if key not in lead} for row in rows
        ]
    folders = read(tiny, "lexical_index", dict[str, Path])
    assert all((folder / "manifest.json").is_file() for folder in folders.values())


def test_what_cannot_be_loaded_is_said(small: Tiny) -> None:
    with pytest.raises(dg.Failure, match="tiny/metrics_summary bm25 was not materialized yet"):
        read(small, "metrics_summary", pa.Table)
    evaluate_now(small)
    allowed = r"allowed: pyarrow.Table, pandas.DataFrame, .* or dict\[str, ...\]"
    with pytest.raises(dg.Failure, match=rf"cannot be loaded as <class 'int'>; {allowed}"):
        read(small, "metrics_summary", int)


def test_the_resource_says_where_results_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "default"))
    monkeypatch.setenv("TEAM_STORE", str(tmp_path / "team"))
    assert rag_assets.RagAssets().settings().store == tmp_path / "default"
    place = rag_assets.RagAssets(
        store=dg.EnvVar("TEAM_STORE"), state_dir=str(tmp_path / "state")
    ).settings()
    assert (place.store, place.state_dir) == (tmp_path / "team", tmp_path / "state")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, not a folder"):
        rag_assets.RagAssets(store=str(tmp_path / "file")).settings()


def test_only_the_experiment_writes_its_tables(tiny: Tiny) -> None:
    @dg.asset(io_manager_def=rag_assets.parquet_io_manager(store=str(tiny.settings.store)))
    def other() -> int:
        return 1

    with pytest.raises(dg.DagsterInvariantViolationError, match="this IO manager only reads"):
        dg.materialize([other], run_config=QUIET, instance=dg.DagsterInstance.ephemeral())
