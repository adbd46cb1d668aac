"""What a person finds at an asset and at a materialization."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import dagster as dg
import pytest

from rag_assets.errors import ConfigError
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.stages.metrics import LEADERBOARD_KEY
from rag_assets.reporting.html import REPORT_FILE
from tests.dagster_state import definitions, latest
from tests.tiny_experiment import Tiny


def specs(tiny: Tiny) -> dict[str, dg.AssetSpec]:
    graph = definitions(tiny).resolve_asset_graph()
    return {key.path[-1]: graph.get(key).to_asset_spec() for key in graph.get_all_asset_keys()}


def test_every_asset_says_what_it_is(fresh: Tiny) -> None:
    fresh.config["owners"] = ["team:search", "ann@example.org"]
    fresh.write_config()
    for name, spec in specs(fresh).items():
        stage = STAGES[name]
        assert spec.description == stage.row
        assert spec.owners == ["team:search", "ann@example.org"]
        assert spec.tags["rag_assets/experiment"] == "tiny"
        assert spec.tags["rag_assets/stage"] == name
        assert spec.kinds == set(stage.kinds_of(fresh.pipeline().experiment))
        (code,) = spec.metadata["dagster/code_references"].code_references
        lines = Path(code.file_path).read_text(encoding="utf-8").splitlines()
        assert lines[code.line_number - 1].startswith(f"class {type(stage).__name__}")


def columns(spec: dg.AssetSpec) -> list[str]:
    table = spec.metadata.get("dagster/column_schema")
    return [column.name for column in table.schema.columns] if table else []


def test_columns_are_described_and_traced(fresh: Tiny) -> None:
    found = specs(fresh)
    assert columns(found["metrics"])[-3:] == ["hit_rate", "mrr", "ndcg"]
    traced = {
        name: spec.metadata["dagster/column_lineage"].column_lineage.deps_by_column
        for name, spec in found.items()
        if "dagster/column_lineage" in spec.metadata
    }
    grade = dg.TableColumnDep(dg.AssetKey(["tiny", "judgments"]), "grade")
    assert grade in traced["metrics"]["ndcg"]
    for name, lineage in traced.items():
        assert set(lineage) <= set(columns(found[name]))
        for dep in (dep for deps in lineage.values() for dep in deps):
            assert dep.column_name in columns(found[dep.asset_key.path[-1]])


def test_the_leaderboard_links_to_the_report(tiny: Tiny) -> None:
    url = latest(tiny, LEADERBOARD_KEY).metadata["report"].value
    assert isinstance(url, str)
    assert url.startswith("file:///")
    # The copy of the experiment has the events of the original.
    assert Path(unquote(urlparse(url).path)).parts[-3:] == ("store", "tiny", REPORT_FILE)


@pytest.mark.parametrize("owner", ["bob", "team:", "a@b", "team:x y", ""])
def test_an_owner_that_dagster_would_refuse(fresh: Tiny, owner: str) -> None:
    fresh.config["owners"] = [owner]
    fresh.write_config()
    with pytest.raises(ConfigError, match=r"experiment.yaml:\d+: `owners.*is no owner"):
        fresh.pipeline()
