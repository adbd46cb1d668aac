"""An instance that did not see an evaluation made says how to be told of it, and is told."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import report_job, unreported
from rag_assets.assets.names import LINE_CHARACTERS, REPORTS, first_line
from rag_assets.checks.asset_checks import checks_of
from rag_assets.errors import UsageError
from rag_assets.pipeline.stages import STAGES
from tests.dagster_state import QUIET, evaluate_now, not_fresh, statuses
from tests.tiny_experiment import Tiny


def described(tiny: Tiny) -> dict[str, str]:
    found = definitions_of(tiny.pipeline().experiment, tiny.settings)
    graph = found.resolve_asset_graph()
    return {key.path[-1]: str(graph.get(key).description) for key in graph.get_all_asset_keys()}


def report(tiny: Tiny) -> dg.ExecuteInProcessResult:
    job = report_job(tiny.pipeline().experiment, tiny.settings)
    with open_instance(tiny.settings) as instance:
        return job.execute_in_process(instance=instance, run_config=QUIET)


def test_another_instance_says_how_to_report_and_is_told(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_now(tiny)
    assert "tiny_report" not in described(tiny)["leaderboard"]
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert set(statuses(tiny).values()) == {"MISSING"}
    told = {name for name, text in described(tiny).items() if "the job `tiny_report`" in text}
    assert told == {"documents", "leaderboard"}
    before = sorted(path for path in tiny.settings.store.rglob("*.parquet"))
    assert report(tiny).success
    assert not_fresh(tiny) == {}
    assert sorted(path for path in tiny.settings.store.rglob("*.parquet")) == before
    assert "tiny_report" not in described(tiny)["leaderboard"]
    assert list(unreported(tiny.pipeline(), {})) == []


def test_what_is_not_up_to_date_is_left_out(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_now(tiny)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    tiny.configure("hybrid", k=5)
    assert report(tiny).success
    found = statuses(tiny)
    assert found["metrics/bm25/3"] == "FRESH"
    assert found["metrics/hybrid/3"] == "MISSING"
    assert found["leaderboard"] == "MISSING"


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


def test_first_lines_are_short_and_no_word_is_lost() -> None:
    texts = {check.meaning for stage in STAGES.values() for check in checks_of(stage)}
    long = {text for text in texts if len(first_line(text).split("\n")[0]) > LINE_CHARACTERS + 1}
    assert all(first_line(text).replace("\n", " ") == text for text in texts)
    # One clause each, of a length that a screen has.
    assert [text for text in long if re.search("[.:;] ", text[:LINE_CHARACTERS])] == []
    assert max(map(len, long)) < 90
    assert first_line("One query of a cell: every metric of its run, and more that is said.") == (
        "One query of a cell:\nevery metric of its run, and more that is said."
    )
