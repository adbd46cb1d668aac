"""`evaluate`: what it computes, what Dagster is told, and that both agree."""

from __future__ import annotations

import shutil
import signal

import pytest

from rag_assets.assets.instance import TESTED_WITH
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import counts, evaluate_now, materializations, n_runs, not_fresh, statuses
from tests.installed import python
from tests.tiny_experiment import Tiny, matching

N_PARTITIONS, N_ARTIFACTS = 74, 68


def added(tiny: Tiny, before: dict[str, int]) -> dict[str, int]:
    return {
        name: n - before.get(name, 0) for name, n in counts(tiny).items() if n > before.get(name, 0)
    }


def test_everything_is_fresh_was_reported_and_recorded_once_and_the_next_starts_no_run(
    tiny: Tiny,
) -> None:
    found = statuses(tiny)
    assert set(found) == matching(tiny.pipeline(), "*")
    assert set(found.values()) == {"FRESH"}
    assert counts(tiny) == dict.fromkeys(found, 1)
    evaluation = read_current(tiny.artifacts)
    assert len(evaluation.entries) == N_PARTITIONS
    assert evaluation.computed == N_ARTIFACTS == len({one.path for one in evaluation.entries})
    assert evaluation.complete
    assert evaluation.trigger == "command line"
    assert len(evaluation.dagster_runs) == n_runs(tiny) == 1
    assert tiny.settings.warehouse.is_file()
    again = evaluate_now(tiny)
    assert (again.computed, again.reused) == (0, N_ARTIFACTS)
    assert again.evaluation.dagster_runs == ()
    assert n_runs(tiny) == 1


EVALUATE = """
import sys
from rag_assets.assets.evaluate import evaluate
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.store.settings import StoreSettings
experiment = load_experiment(sys.argv[1])
pipeline = Pipeline(experiment, StoreSettings.resolve(sys.argv[2]))
work = evaluate(pipeline, Selection.of(experiment))
print(work.computed, sorted({"dagster", "pandas", "torch", "faiss"} & set(sys.modules)))
"""


def run_evaluate(tiny: Tiny) -> str:
    done = python(tiny.root, "-c", EVALUATE, str(tiny.folder), str(tiny.settings.store))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_dagster_is_imported_where_something_changed_and_nothing_is_printed(tiny: Tiny) -> None:
    assert run_evaluate(tiny) == "0 []"
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    assert run_evaluate(tiny) == "2 ['dagster', 'pandas']"


@pytest.mark.parametrize("tested_with", [TESTED_WITH, "another"])
def test_an_instance_that_was_deleted_is_told_everything_again(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, tested_with: str
) -> None:
    """In the storage that stays open, and in that of Dagster itself."""
    monkeypatch.setattr("rag_assets.assets.instance.TESTED_WITH", tested_with)
    shutil.rmtree(tiny.settings.dagster_home)
    assert evaluate_now(tiny).computed == 0
    assert counts(tiny) == dict.fromkeys(matching(tiny.pipeline(), "*"), 1)
    assert all(e.metadata["reused"].value is True for e in materializations(tiny, "metrics"))
    assert not_fresh(tiny) == {}


def test_an_interruption_loses_only_what_was_not_finished(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.configure("bm25-whole", b=0.1)
    original = Pipeline.materialize

    def interrupted(self: Pipeline, asset: str, keys: list[ArtifactKey]) -> list[Outcome]:
        if asset == "metrics":
            raise KeyboardInterrupt
        return original(self, asset, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "materialize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluate_now(tiny)
    computed = matching(
        tiny.pipeline(),
        "metrics/bm25-whole/*",
        "attributions/bm25-whole/*",
        "attributions/hybrid/*",
        "answerability",
    )
    assert evaluate_now(tiny).computed == len(computed)  # no index, no other run; summaries stay
    assert not_fresh(tiny) == {}


class Dying:
    """Sends SIGTERM while it is taken apart, where Python forgets what the handler raises."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_an_interrupt_that_python_forgets_ends_the_run(
    small: Tiny, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Pipeline.materialize

    def dying(self: Pipeline, asset: str, keys: list[ArtifactKey]) -> list[Outcome]:
        if asset == "chunks":
            Dying()
        return original(self, asset, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "materialize", dying)
        with pytest.raises(KeyboardInterrupt):
            evaluate_now(small)
    assert "Exception ignored" not in capfd.readouterr().err
    assert not list(small.objects("metrics").glob("**/*.parquet")), "no later stage was begun"
    assert evaluate_now(small).computed


def test_the_handler_of_sigterm_is_left_as_it_was(small: Tiny) -> None:
    """Also where SIGINT is nothing, as in the background of a shell script."""

    def own(*_: object) -> None:
        raise SystemExit

    before = signal.signal(signal.SIGTERM, own), signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert evaluate_now(small).computed
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
