"""What a person finds at an asset and a materialization, and what an instance is told later."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import dagster as dg
import pytest

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.names import REPORTS
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from rag_assets.pipeline.stages import STAGES
from rag_assets.plain_text import markdown
from rag_assets.report.html import REPORT_FILE
from rag_assets.report.result import EvaluationResult
from rag_assets.report.view import View
from rag_assets.report.winner import winner_of
from rag_assets.store.artifacts import ArtifactKey
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
        assert spec.description is not None
        assert spec.description.startswith(str(type(stage).__doc__).splitlines()[0])
        assert spec.kinds
        assert spec.metadata["row"].value == stage.row
        assert spec.owners == ["team:search", "ann@example.org"]
        assert spec.tags["rag_assets/experiment"] == "tiny"
        assert spec.tags["rag_assets/stage"] == name
        assert spec.kinds == set(stage.kinds_of(fresh.pipeline().experiment))
    first_lines = [str(type(stage).__doc__).splitlines()[0] for stage in STAGES.values()]
    assert len(set(first_lines)) == len(first_lines), "each asset has a sentence of its own"


def columns(spec: dg.AssetSpec) -> list[str]:
    table = spec.metadata.get("dagster/column_schema") or spec.metadata.get("columns")
    return [column.name for column in table.schema.columns] if table else []


def test_columns_are_described(fresh: Tiny) -> None:
    found = specs(fresh)
    assert columns(found["metrics"])[-3:] == ["hit_rate", "mrr", "ndcg"]


def test_the_leaderboard_links_to_the_report(tiny: Tiny) -> None:
    url = latest(tiny, LEADERBOARD_KEY).metadata["report"].value
    assert isinstance(url, str)
    assert url.startswith("file:///")
    # The copy of the experiment has the events of the original.
    assert Path(unquote(urlparse(url).path)).parts[-3:] == ("store", "tiny", REPORT_FILE)


def rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def test_who_wins_comes_first(tiny: Tiny) -> None:
    tiny.snapshot()
    shown = latest(tiny, LEADERBOARD_KEY).metadata
    assert next(iter(shown)) == "winner"
    winner = winner_of(View(EvaluationResult.current(tiny.artifacts)))
    assert winner is not None
    said = [markdown(text) for text in (winner.title, *winner.sentences)]
    assert shown["winner"] == dg.MetadataValue.md("\n\n".join([f"**{said[0]}**", *said[1:]]))


@pytest.mark.parametrize(
    ("key", "first"),
    [
        (LEADERBOARD_KEY, ["position", "retriever", "split", "top_k", "hit_rate", "mrr", "ndcg"]),
        (metrics_key("hybrid", 3), ["query_id", "hit_rate", "mrr", "ndcg"]),
    ],
)
def test_metrics_stand_where_a_page_shows_them(
    tiny: Tiny, key: ArtifactKey, first: list[str]
) -> None:
    preview = latest(tiny, key).metadata["preview"]
    assert isinstance(preview, dg.TableMetadataValue)
    names = [column.name for column in preview.schema.columns]
    assert names[: len(first)] == first
    assert sorted(names) == sorted(tiny.pipeline().artifact(key).table().column_names)
    assert all(sorted(record.data) == sorted(names) for record in preview.records)


def test_means_are_shown_with_six_digits(tiny: Tiny) -> None:
    for name in ("hybrid", "bm25"):
        (row,) = [
            row
            for row in tiny.pipeline().artifact(LEADERBOARD_KEY).table().to_pylist()
            if (row["retriever"], row["top_k"]) == (name, 3)
        ]
        shown = latest(tiny, metrics_key(name, 3)).metadata["ndcg"].value
        assert shown == round(row["ndcg"], 6)
        assert shown != row["ndcg"]


@pytest.mark.parametrize("owner", ["bob", "team:", "a@b", "team:x y", ""])
def test_an_owner_that_dagster_would_refuse(fresh: Tiny, owner: str) -> None:
    fresh.config["owners"] = [owner]
    fresh.write_config()
    with pytest.raises(ConfigError, match=r"experiment.yaml:\d+: `owners.*is not an owner"):
        fresh.pipeline()


def described(tiny: Tiny) -> dict[str, str]:
    found = definitions_of(tiny.pipeline().experiment, tiny.settings)
    graph = found.resolve_asset_graph()
    return {key.path[-1]: str(graph.get(key).description) for key in graph.get_all_asset_keys()}


def test_the_leaderboard_links_to_where_reports_are_served(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "http" not in described(tiny)["leaderboard"]
    monkeypatch.setenv(REPORTS, "http://127.0.0.1:3001/")
    link = "[Open the report](http://127.0.0.1:3001/tiny/report.html)"
    assert [name for name, text in described(tiny).items() if link in text] == ["leaderboard"]
    for wrong in ("javascript:alert(1)", "http://a)b", "ftp://a"):
        monkeypatch.setenv(REPORTS, wrong)
        with pytest.raises(UsageError, match=REPORTS):
            described(tiny)
