"""Declarative automation, tick by tick: exactly what `evaluate` would report is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from rag_assets.assets.build import build_assets
from rag_assets.assets.evaluation_steps import stale_stages
from rag_assets.assets.experiment_definitions import automated
from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import record_run
from rag_assets.assets.names import artifact_key
from rag_assets.errors import DataError
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import counts, evaluate_now, not_fresh
from tests.tiny_experiment import QUERIES, Tiny, matching, short

Requested = dict[str, list[ArtifactKey]]


class Daemon:
    """Ticks on the tiny experiment, as the daemon does; the code location is loaded once."""

    def __init__(self, tiny: Tiny, instance: dg.DagsterInstance) -> None:
        self.tiny = tiny
        self.instance = instance
        self.cursor: AssetDaemonCursor | None = None
        self.load()

    def load(self) -> None:
        experiment = self.tiny.pipeline().experiment
        self.assets = automated(build_assets(experiment, self.tiny.pipeline), self.tiny.pipeline)

    def tick(self) -> set[str]:
        """Return what is requested, without running it."""
        return {short(key) for keys in self._tick().values() for key in keys}

    def _tick(self) -> Requested:
        result = dg.evaluate_automation_conditions(
            dg.Definitions(assets=self.assets), self.instance, cursor=self.cursor
        )
        self.cursor = result.cursor
        requested: Requested = {}
        for asset in self.assets:
            names = result.get_requested_partitions(asset.key)
            if names:
                stage = STAGES[asset.key.path[-1]]
                requested[stage.name] = [
                    artifact_key(stage, name) for name in sorted(names, key=str)
                ]
        return requested

    def cascade(self) -> list[set[str]]:
        """Run what is requested until nothing is; return what was requested at each tick."""
        ticks = []
        while requested := self._tick():
            ticks.append({short(key) for keys in requested.values() for key in keys})
            pipeline = self.tiny.pipeline()
            record_run(pipeline, stale_stages(pipeline, requested), self.instance, "test")
        return ticks


@pytest.fixture
def daemon(tiny: Tiny) -> Iterator[Daemon]:
    with open_instance(tiny.settings) as instance:
        yield Daemon(tiny, instance)


def added(tiny: Tiny, before: dict[str, int]) -> dict[str, int]:
    return {
        name: n - before.get(name, 0) for name, n in counts(tiny).items() if n > before.get(name, 0)
    }


def edit(tiny: Tiny) -> None:
    tiny.replace("fares.md", "travel free of charge", "pay nothing")


def tag(tiny: Tiny) -> None:
    tiny.replace("queries.jsonl", '"wind"', '"storm"')


@pytest.mark.parametrize("change", [edit, tag])
def test_the_cascade_reports_exactly_what_evaluate_reports(
    tiny: Tiny, tmp_path: Path, change: Callable[[Tiny], None]
) -> None:
    other = tiny.copy_to(tmp_path / "other")
    change(other)
    before = counts(other)
    work = evaluate_now(other)
    change(tiny)
    with open_instance(tiny.settings) as instance:
        ticks = Daemon(tiny, instance).cascade()
    requested = [name for tick in ticks for name in tick]
    assert len(requested) == len(set(requested))
    assert dict.fromkeys(requested, 1) == added(other, before) == added(tiny, before)
    assert not_fresh(tiny) == {}
    after = evaluate_now(tiny)
    assert (after.computed, after.evaluation.dagster_runs) == (0, ())
    assert after.evaluation.content == work.evaluation.content


def test_without_a_change_nothing_is_requested(daemon: Daemon) -> None:
    assert [daemon.tick(), daemon.tick()] == [set(), set()]


def test_a_touched_file_requests_nothing(daemon: Daemon) -> None:
    for file in daemon.tiny.folder.rglob("*.*"):
        file.touch()
    assert daemon.tick() == set()


def test_a_reused_result_stops_the_cascade(daemon: Daemon) -> None:
    """The file is another one, the table of queries is not: its order means nothing."""
    daemon.tiny.write_rows("queries.jsonl", QUERIES[::-1])
    assert daemon.cascade() == [{"queries"}]


def test_layer_by_layer(daemon: Daemon) -> None:
    tag(daemon.tiny)
    first, second = daemon.cascade()
    assert first == {"queries"}
    assert second == matching(
        daemon.tiny.pipeline(), "qrels", "query_facts", "query_sets/*", "metrics/*"
    )


def test_an_empty_store_is_filled_from_the_top(fresh: Tiny) -> None:
    with open_instance(fresh.settings) as instance:
        assert Daemon(fresh, instance).tick() == {"documents", "queries"}


def test_a_changed_configuration_requests_its_partition_alone(daemon: Daemon) -> None:
    daemon.tiny.configure("bm25", k1=0.4)
    assert daemon.tick() == {"lexical_index/bm25"}


def test_what_fails_is_asked_for_once_until_something_changes(daemon: Daemon) -> None:
    daemon.tiny.replace("judgments.jsonl", "A dog needs", "A cat needs")
    with pytest.raises(DataError):
        daemon.cascade()
    assert [daemon.tick(), daemon.tick()] == [set(), set()]
    daemon.tiny.replace("judgments.jsonl", "A cat needs", "A dog needs")
    assert daemon.tick() == set()
    daemon.tiny.replace("judgments.jsonl", "A dog needs", "A cat needs")
    assert daemon.tick() == {"qrels"}


def test_what_was_deleted_is_asked_for_again(daemon: Daemon) -> None:
    daemon.tiny.write_rows("queries.jsonl", QUERIES[::-1])
    daemon.cascade()
    for file in daemon.tiny.objects("queries").rglob("*.parquet"):
        file.unlink()
    assert daemon.tick() == {"queries"}


def test_what_was_computed_and_not_yet_reported_is_not_asked_for_again(daemon: Daemon) -> None:
    tag(daemon.tiny)
    assert daemon.tick() == {"queries"}
    daemon.tiny.pipeline().materialize("queries", [ArtifactKey.of("queries")])
    # Nor is what reads it: Dagster would take it for older than its input.
    assert daemon.tick() == set()


def test_what_is_in_progress_waits(daemon: Daemon) -> None:
    edit(daemon.tiny)
    job = dg.Definitions(assets=daemon.assets).resolve_implicit_global_asset_job_def()
    run = daemon.instance.create_run_for_job(
        job,
        asset_selection=frozenset({dg.AssetKey(["tiny", "documents"])}),
        status=dg.DagsterRunStatus.STARTED,
    )
    assert daemon.tick() == set()
    daemon.instance.report_run_failed(run)
    assert daemon.tick() == {"documents"}


def test_an_unreadable_source_is_a_line_in_the_log(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    (daemon.tiny.folder / "queries.jsonl").unlink()
    (daemon.tiny.folder / "queries.jsonl").mkdir()
    assert daemon.tick() == set()
    assert "queries.jsonl" in caplog.text
