"""Measurements of a store: durations and amounts, whose they are, and what the next run takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.engine import measurements
from rag_assets.engine.measurements import (
    MEASUREMENTS,
    Measurements,
    duration_text,
    longest_times,
    seconds_per_text,
)
from rag_assets.store.artifacts import ArtifactKey


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    folder = tmp_path / MEASUREMENTS
    own, other = Measurements(folder, "ferry"), Measurements(folder, "rail")
    own.add("lexical_runs", "a" * 64, 3.0, retriever="bm25")
    own.add("lexical_runs", "b" * 64, 1.0, retriever="bm25")
    own.add("lexical_runs", "c" * 64, 8.0, retriever="slow")
    other.add("lexical_runs", "d" * 64, 500.0, retriever="bm25")
    own.add("embed", "e" * 64, 100.0, 50, model="m", cached=False)
    own.add("embed", "f" * 64, None, 700, model="m", cached=True)
    own.add("embed", "1" * 64, 60.0, 2, model="m", cached=False)  # loading the model
    other.add("embed", "2" * 64, 10.0, 100, model="large", cached=False)
    return folder


def test_times_are_those_of_this_machine(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most that a partition took in its experiment; of a new one, the most of its asset."""
    runs, new = (ArtifactKey.of("lexical_runs", retriever=name) for name in ("bm25", "new"))
    keys = [runs, new, ArtifactKey.of("metrics", retriever="bm25", top_k=1)]
    assert longest_times(measured, "ferry", keys) == {runs: 3.0, new: 8.0}
    assert seconds_per_text(measured, "m") == 2.0
    monkeypatch.setattr(measurements, "machine", lambda: "elsewhere")
    assert seconds_per_text(measured, "m") is None
    assert longest_times(measured, "ferry", keys) == {}


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


class TestMeasurements:
    def test_they_go_by_what_is_measured_and_not_by_its_name(self, tmp_path: Path) -> None:
        measurements = Measurements(tmp_path)
        for number, name in enumerate(["a", "b"]):
            measurements.add("search", f"{'f' * 64}-15", float(number), retriever=name)
        found = measurements.find("search", f"{'f' * 64}-15")
        assert found is not None
        assert found["seconds"] == 1.0
        assert measurements.find("search", f"{'f' * 64}-1") is None
        assert measurements.find("search", f"{'e' * 64}-15") is None

    def test_that_of_this_machine_comes_before_that_of_another(self, tmp_path: Path) -> None:
        measurements = Measurements(tmp_path)
        measurements.add("search", "f" * 64, 1.0)
        (file,) = (tmp_path / "search").iterdir()
        other = file.rename(file.with_name(f"{file.name.partition('=')[0]}=another.json"))
        own = measurements.find("search", "f" * 64)
        assert own is not None
        assert own["seconds"] == 1.0
        measurements.add("search", "f" * 64, 2.0)
        other.write_text(other.read_text().replace(': "20', ': "30'))  # it is newer
        own = measurements.find("search", "f" * 64)
        assert own is not None
        assert own["seconds"] == 2.0

    def test_cached_and_not_cached_are_told_apart(self, tmp_path: Path) -> None:
        measurements = Measurements(tmp_path)
        measurements.add("embed", "f" * 64, None, 3, cached=True)
        assert measurements.find("embed", "f" * 64, cached=False) is None
        found = measurements.find("embed", "f" * 64, cached=True)
        assert found is not None
        assert (found["amount"], found["seconds"], found["cost"]) == (3, None, None)

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"what": "search"}'])
    def test_a_damaged_file_is_no_measurement(self, tmp_path: Path, content: str) -> None:
        file = tmp_path / "search" / f"{'f' * 16}+at=another.json"
        file.parent.mkdir()
        file.write_text(content)
        assert Measurements(tmp_path).find("search", "f" * 64) is None
