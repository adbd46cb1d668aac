"""`evaluate`: what it computes, what Dagster is told, and that both agree."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.assets.evaluation_steps import stale_stages
from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import record_run
from rag_assets.errors import DataError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import counts, evaluate_now, materializations, n_runs, not_fresh, statuses
from tests.tiny_experiment import JUDGMENTS, Tiny, matching

TOP_K = (1, 3, 5)

ROOT = Path(__file__).parents[2]
N_PARTITIONS, N_ARTIFACTS = 74, 68


def added(tiny: Tiny, before: dict[str, int]) -> dict[str, int]:
    return {
        name: n - before.get(name, 0) for name, n in counts(tiny).items() if n > before.get(name, 0)
    }


def test_after_an_evaluation_everything_is_fresh_and_was_reported_and_recorded_once(
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


def test_without_a_change_no_run_is_started(tiny: Tiny) -> None:
    runs = n_runs(tiny)
    work = evaluate_now(tiny)
    assert (work.computed, work.reused) == (0, N_ARTIFACTS)
    assert work.evaluation.dagster_runs == ()
    assert n_runs(tiny) == runs


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


def run_evaluate(tiny: Tiny, **variables: str) -> str:
    command = [sys.executable, "-c", EVALUATE, str(tiny.folder), str(tiny.root / "store")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_dagster_is_imported_where_something_changed_and_nothing_is_printed(tiny: Tiny) -> None:
    assert run_evaluate(tiny) == "0 []"
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    assert run_evaluate(tiny) == "2 ['dagster', 'pandas']"


Change = Callable[[Tiny], object]


def delete_runs(tiny: Tiny) -> None:
    tiny.lose("lexical_runs", "okapi")
    shutil.rmtree(tiny.objects("rankings"))


def add_fusion(tiny: Tiny) -> None:
    tiny.configure("deep", type="rrf", inputs=["bm25-whole", "okapi"], candidates=50)


def add_top_k(tiny: Tiny) -> None:
    tiny.config["top_k"] = [1, 3, 5, 10]
    tiny.write_config()


CHANGES: dict[str, Change] = {
    # Every other kind is in tests/pipeline/test_invalidation_matrix.py, without Dagster.
    "deleted runs": delete_runs,
    "a deep fusion": add_fusion,
    "top_k": add_top_k,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_any_change_everything_is_fresh_again_and_the_next_does_nothing(
    tiny: Tiny, change: Change
) -> None:
    change(tiny)
    work = evaluate_now(tiny)
    assert work.computed > 0
    assert not_fresh(tiny) == {}
    again = evaluate_now(tiny)
    assert (again.computed, again.evaluation.dagster_runs) == (0, ())
    assert again.evaluation.content == work.evaluation.content


@pytest.mark.usefixtures("either_storage")
def test_a_change_of_one_retriever_reports_exactly_its_dependants(tiny: Tiny) -> None:
    before = counts(tiny)
    tiny.configure("bm25", k1=0.4)
    work = evaluate_now(tiny)
    computed = matching(
        tiny.pipeline(),
        "lexical_index/bm25",
        "lexical_runs/bm25/*",
        "fused_runs/*",
        "metrics/bm25/*",
        "attributions/bm25/*",
        "attributions/hybrid/*",
        "attributions/shallow/*",
        "answerability",
    )
    assert work.computed == len(computed)
    # The numbers of the queries stay, so no summary is even told.
    assert added(tiny, before) == dict.fromkeys(computed, 1)
    assert not_fresh(tiny) == {}


def test_a_tag_computes_the_queries_and_their_facts_and_tells_what_looks_at_them(
    tiny: Tiny,
) -> None:
    before = counts(tiny)
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    work = evaluate_now(tiny)
    assert work.computed == 2
    told = matching(tiny.pipeline(), "queries", "qrels", "query_facts", "query_sets/*", "metrics/*")
    assert added(tiny, before) == dict.fromkeys(told, 1)
    for asset in ("qrels", "query_sets", "metrics"):
        assert materializations(tiny, asset)[0].metadata["reused"].value is True
    for asset in ("queries", "query_facts"):
        assert materializations(tiny, asset)[0].metadata["reused"].value is False
    assert not_fresh(tiny) == {}


def test_partitions_that_are_not_neighbours_are_reported_alone(tiny: Tiny) -> None:
    """What lies between is not told again."""
    shutil.rmtree(tiny.settings.dagster_home / "rag_assets")
    pipeline = tiny.pipeline()
    wanted = matching(pipeline, "metrics/bm25/1", "metrics/okapi/5")
    tiny.lose("metrics", "bm25", 1)
    tiny.lose("metrics", "okapi", 5)
    before = counts(tiny)

    keys = [metrics_key("bm25", 1), metrics_key("okapi", 5)]
    with open_instance(tiny.settings) as instance:
        record_run(pipeline, stale_stages(pipeline, {"metrics": keys}), instance, "test")
    assert added(tiny, before) == dict.fromkeys(wanted, 1)
    assert set(not_fresh(tiny)) <= matching(
        pipeline, "metrics_summary/*", "intervals/*", "comparisons"
    )


@pytest.mark.usefixtures("either_storage")
def test_an_instance_that_was_deleted_is_told_everything_again(tiny: Tiny) -> None:
    shutil.rmtree(tiny.settings.dagster_home)
    work = evaluate_now(tiny)
    assert work.computed == 0
    assert counts(tiny) == dict.fromkeys(matching(tiny.pipeline(), "*"), 1)
    assert all(e.metadata["reused"].value is True for e in materializations(tiny, "metrics"))
    assert not_fresh(tiny) == {}


def test_notes_of_the_readers_are_shown(tiny: Tiny) -> None:
    tiny.write_rows("judgments.jsonl", [{**JUDGMENTS[0], "remark": "x"}, *JUDGMENTS[1:]])
    evaluate_now(tiny)
    assert "remark" in str(materializations(tiny, "qrels")[0].metadata["notes"].value)


def test_invalid_data_is_our_own_error_and_leaves_the_current_state(tiny: Tiny) -> None:
    before = read_current(tiny.artifacts)
    tiny.replace("judgments.jsonl", "A dog needs", "A cat needs")
    with pytest.raises(DataError, match=r"judgments\.jsonl:1: `quote`"):
        evaluate_now(tiny)
    assert read_current(tiny.artifacts) == before
    tiny.replace("judgments.jsonl", "A cat needs", "A dog needs")
    assert evaluate_now(tiny).evaluation.content == before.content


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
