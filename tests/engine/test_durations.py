"""How long work takes, by measurements that are written out here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.engine import measurements
from rag_assets.engine.measurements import (
    MEASUREMENTS,
    Durations,
    ExpectedTime,
    Measurements,
    duration_text,
    expected_time,
)
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import plan
from rag_assets.pipeline.selection import Selection
from rag_assets.report.plan import _time
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import write_beir


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    folder = tmp_path / MEASUREMENTS
    own, other = Measurements(folder, "ferry"), Measurements(folder, "rail")
    own.add("lexical_runs", "a" * 64, 3.0, retriever="bm25")
    own.add("lexical_runs", "b" * 64, 1.0, retriever="bm25")
    own.add("lexical_runs", "c" * 64, 8.0, retriever="slow")
    other.add("lexical_runs", "d" * 64, 500.0, retriever="bm25")
    own.add("embed", "e" * 64, 100.0, 50, retriever="minilm", model="m", cached=False)
    own.add("embed", "f" * 64, None, 700, retriever="minilm", cached=True)
    own.add("ask", "3" * 64, 5.0, 100, retriever="cross", cached=False)
    other.add("ask", "4" * 64, 90.0, 100, retriever="large", cached=False)
    own.add("embed", "1" * 64, 60.0, 2, retriever="minilm", cached=False)  # loading the model
    other.add("embed", "2" * 64, 10.0, 100, retriever="large", cached=False)
    return folder


def test_what_was_measured_for_the_retriever_comes_first(measured: Path) -> None:
    durations = Durations(measured, "ferry", {"minilm": "m"})
    assert durations.partition("lexical_runs", "bm25") == 2.0
    assert durations.partition("lexical_runs", "new") == 4.0
    assert durations.partition("metrics", "bm25") is None
    assert durations.text("minilm") == 2.0
    assert durations.text("new") is None  # another model's texts say nothing
    assert Durations(measured, "rail", {"new": "m"}).text("new") == 2.0
    assert Durations(measured, "ferry", {"minilm": "other"}).text("minilm") is None
    assert durations.pair("cross") == 0.05
    assert durations.pair("new") is None  # another model's pairs say nothing
    assert Durations(measured, "none").partition("lexical_runs", "bm25") is None


def test_other_machines_say_nothing(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "machine", lambda: "elsewhere")
    assert Durations(measured, "ferry").text("minilm", "m") is None


def test_a_plan_adds_up_what_is_certain_and_what_is_checked(measured: Path) -> None:
    runs = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=1)
    index = ArtifactKey.of("embedding_index", retriever="minilm")
    metrics = ArtifactKey.of("metrics", retriever="bm25", top_k=1)
    full = ArtifactKey.of("reranked_runs", retriever="cross", top_k=1)
    work = [
        (index, True, {"texts": 300}),
        (full, False, {"pairs": 20}),
        (runs, True, {}),
        (runs, False, {}),
        (metrics, False, {}),
    ]
    expected = expected_time(Durations(measured, "ferry", {"minilm": "m"}), work)
    assert expected == ExpectedTime(602.0, 3.0, ("metrics",))
    assert _time(expected) == (
        "time: not measured yet: metrics; the rest: about 10 minutes, and at most a few seconds "
        "for what is checked (as measured here before)"
    )


def test_a_first_plan_knows_nothing_and_a_second_one_what_was_measured(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": "retrievers: {bm25: {type: bm25}}"})
    settings = StoreSettings.resolve(tmp_path / "store")

    def planned() -> ExpectedTime:
        experiment = load_experiment(folder)
        return plan(Pipeline(experiment, settings), Selection.of(experiment)).time

    first = planned()
    assert (first.computed, first.checked) == (0.0, 0.0)
    assert "lexical_index" in first.unknown
    pipeline = Pipeline(load_experiment(folder), settings)
    for asset in ("documents", "queries", "qrels"):
        pipeline.materialize(asset, [ArtifactKey.of(asset)])
    file = next((settings.store / MEASUREMENTS / "documents").iterdir())
    seconds = json.loads(file.read_text())["seconds"]
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "ferry"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    again = planned()
    assert again.computed >= seconds
    assert "documents" not in again.unknown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2, "a few seconds"),
        (44, "about 40 seconds"),
        (150, "about 2 minutes"),
        (9000, "about 2.5 hours"),
    ],
)
def test_rough_times(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
