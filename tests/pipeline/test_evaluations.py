from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline import evaluation_record
from rag_assets.pipeline.evaluations import all_experiments, read_current, read_evaluation
from rag_assets.store.atomic import TABLE, write_text
from tests.tiny_experiment import Tiny, short

TOP_K = (1, 3, 5)


def test_a_snapshot_names_every_artifact(tiny: Tiny) -> None:
    evaluation = tiny.snapshot()
    assert read_current(tiny.artifacts) == evaluation
    assert evaluation.complete
    counted = [entry.partition["analysis"] for entry in evaluation.entries_of("term_counts")]
    assert sorted(counted) == ["parts:english", "parts:standard", "whole:english"]
    assert len(evaluation.entries) == 73 + len(counted)
    for entry in evaluation.entries:
        artifact = tiny.pipeline().artifact(entry.key)
        assert tiny.settings.store / entry.path == artifact.path
        assert entry.digest == artifact.manifest.digests["all"]
        assert entry.fingerprint == artifact.manifest.fingerprint


def test_content_is_the_same_for_the_same_state(tiny: Tiny) -> None:
    one, other = tiny.snapshot(), tiny.snapshot()
    assert one.evaluation_id < other.evaluation_id
    assert one.content == other.content
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    tiny.run()
    assert tiny.snapshot().content != one.content


def test_the_old_state_stays_until_the_last_moment(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.snapshot()
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    assert read_current(tiny.artifacts) == old
    seen = []

    def spy(path: Path, text: str) -> None:
        seen.append((path.name, read_current(tiny.artifacts)))
        write_text(path, text)

    monkeypatch.setattr(evaluation_record, "write_text", spy)
    new = tiny.snapshot()
    assert seen == [(f"{new.evaluation_id}.json", old), ("current", old)]
    assert read_current(tiny.artifacts) == new
    assert new.content != old.content


@pytest.mark.parametrize("stop_at", ["json", "current"])
def test_an_interruption_leaves_the_current_evaluation(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, stop_at: str
) -> None:
    old = tiny.snapshot()

    def interrupted(path: Path, text: str) -> None:
        if path.name.endswith(stop_at):
            raise KeyboardInterrupt
        write_text(path, text)

    monkeypatch.setattr(evaluation_record, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tiny.snapshot()
    assert read_current(tiny.artifacts) == old


def test_old_evaluations_stay_readable(tiny: Tiny) -> None:
    old = tiny.snapshot()
    board = tiny.settings.store / old.entries_of("leaderboard")[0].path / TABLE
    before = board.read_bytes()
    tiny.configure("bm25-whole", b=0.1)
    tiny.run()
    tiny.snapshot()
    file = tiny.artifacts / "evaluations" / f"{old.evaluation_id}.json"
    assert read_evaluation(file) == old
    assert board.read_bytes() == before


def test_an_incomplete_state_is_called_so(fresh: Tiny) -> None:
    pipeline = fresh.pipeline()
    for source in ("documents", "queries"):
        pipeline.materialize(
            source,
            [
                key
                for stage in pipeline.stages()
                if stage.name == source
                for key in stage.keys(pipeline.experiment)
            ],
        )
    evaluation = fresh.snapshot()
    assert not evaluation.complete
    assert [short(entry.key) for entry in evaluation.entries] == ["documents", "queries"]


def test_nothing_evaluated(fresh: Tiny) -> None:
    with pytest.raises(NotEvaluated, match="tiny has no evaluation in"):
        read_current(fresh.artifacts)
    assert all_experiments(fresh.settings.store) == []


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "null"])
def test_a_damaged_snapshot_is_a_store_error(tiny: Tiny, content: str) -> None:
    file = tiny.artifacts / "evaluations" / f"{tiny.snapshot().evaluation_id}.json"
    file.write_text(content)
    with pytest.raises(StoreError, match=r"\.json: is not a readable evaluation"):
        read_current(tiny.artifacts)


def test_another_schema_version_is_refused(tiny: Tiny) -> None:
    file = tiny.artifacts / "evaluations" / f"{tiny.snapshot().evaluation_id}.json"
    content = {**json.loads(file.read_text()), "schema_version": 99, "new": 1}
    del content["sha256"]
    file.write_text(json.dumps(content))
    with pytest.raises(
        StoreError,
        match=r"schema version 99, this program writes 1; .*: rag-assets evaluate .*data",
    ):
        read_current(tiny.artifacts)
