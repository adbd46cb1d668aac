"""The latency of single queries: which are timed, how often, and past which caches."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rag_assets.engine.latency_sample import (
    BUDGET_SECONDS,
    added,
    keep_part,
    measure_cell,
    sample_of,
    time_each,
    timed_queries,
)
from rag_assets.engine.measurements import MEASUREMENTS, Measurement, Measurements
from rag_assets.engine.stage_context import Need, Part, StageContext
from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import forget_models
from rag_assets.retrieval.reranking.candidates import Pair
from rag_assets.retrieval.reranking.local import CrossEncoderScorer
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.store.artifacts import OBJECTS
from tests.retrieval.reranking.tiny_models import cross_encoder
from tests.tiny_experiment import QUERIES, Tiny, all_measurements

CLOCKS = ("pipeline.pipeline", "engine.latency_sample", "retrieval.workspace")


def slow_clock(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """Let every look at the clock of the pipeline cost ``step`` seconds."""
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) * step)
    for module in CLOCKS:
        monkeypatch.setattr(f"rag_assets.{module}.time", clock)


def all_timed(tiny: Tiny) -> Tiny:
    """Write the experiment with the sample that is the default; other tests time one query."""
    del tiny.config["measurements"]
    return tiny.write()


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = all_timed(Tiny(tmp_path_factory.mktemp("timed") / "master"))
    tiny.run()
    return tiny


@pytest.fixture
def tiny(timed: Tiny, tmp_path: Path) -> Tiny:
    return timed.copy_to(tmp_path / "tiny")


def latencies(tiny: Tiny) -> dict[tuple[str | None, bool | None], Measurement]:
    found = [m for m in all_measurements(tiny.pipeline().measurements) if m["what"] == "latency"]
    keys = [(m["retriever"], m["cached"]) for m in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found, strict=True))


class TestSample:
    def test_it_is_fixed_whatever_the_order_and_without_repetition(self) -> None:
        names = [f"q{number}" for number in range(200)]
        sample = sample_of(names, 50)
        assert len(set(sample)) == 50
        assert sample_of([*names[::-1], *names], 50) == sample
        assert sample != names[:50]

    def test_a_query_that_goes_changes_one_at_most(self) -> None:
        names = [f"q{number}" for number in range(200)]
        sample = sample_of(names, 50)
        assert sample_of([name for name in names if name != sample[7]], 50)[:49] == [
            name for name in sample if name != sample[7]
        ]


class TestTimes:
    def test_every_query_is_done_once_more_than_timed(self) -> None:
        done: list[str] = []
        times = time_each(["a", "b"], done.append)
        assert done == ["a", "a", "b"]
        assert set(times) == {"a", "b"}
        assert all(value >= 0 for value in times.values())

    def test_milliseconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow_clock(monkeypatch, 0.002)
        assert time_each(["a", "b"], str) == {"a": pytest.approx(2), "b": pytest.approx(2)}

    def test_the_budget_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow_clock(monkeypatch, BUDGET_SECONDS / 10)
        assert 1 < len(time_each([f"q{number}" for number in range(50)], str)) < 10

    def test_only_what_all_parts_have_is_added(self) -> None:
        one, other = Part({"a": 1.0, "b": 2.0}, 0.5), Part({"b": 3.0, "c": 4.0})
        assert added([one, other]) == Part({"b": 5.0}, 0.5)
        assert added([one, Part({"b": 1.0}, None)]).cost is None

    def test_percentiles_are_interpolated(self, tmp_path: Path) -> None:
        times = {str(number): float(number) for number in range(1, 101)}
        context: Any = SimpleNamespace(measurements=Measurements(tmp_path))
        keep_part(context, "latency", "f" * 64, Part(times))
        found = context.measurements.find("latency", "f" * 64)
        assert found["p50_ms"] == 50.5
        assert found["p95_ms"] == pytest.approx(95.05)
        assert found["p99_ms"] == pytest.approx(np.percentile(range(1, 101), 99))
        assert found["samples_ms"] == times


class FixedRanker:
    """Searches at once; before it stands what a language model took to write, 5 ms per query."""

    def __init__(self) -> None:
        self.depths: list[int] = []

    def searcher(self, context: object, need: Need, query_ids: object) -> Any:
        self.depths.append(need.depth)
        return lambda query_id: query_id

    def step_timed_once(self, *_: object) -> None:
        return None

    def parts_before(self, context: StageContext, *_: object) -> list[Part]:
        return [Part(dict.fromkeys(timed_queries(context), 5.0))]


class TestCells:
    def test_every_cell_is_timed(self, timed: Tiny) -> None:
        pipeline = timed.pipeline()
        experiment = pipeline.experiment
        for name in experiment.retrievers:
            for top_k in experiment.top_k:
                cell = pipeline.artifact(run_key(experiment, name, top_k)).manifest
                found = pipeline.measurements.cost_time(cell.fingerprint)
                assert found is not None
                assert found[0] > 0
                assert found[1] == len(QUERIES)
                ranking = str(cell.facts["ranking"])
                whole = pipeline.measurements.find("latency", ranking, cached=False)
                if name == "hybrid":  # what it reads does not depend on the cut-off
                    assert whole is not None
                    mean = 1000 * (whole["seconds"] or 0) / whole["amount"]
                    assert found[0] == pytest.approx(mean)

    def test_a_search_goes_to_the_cut_off_and_writing_is_included(
        self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow_clock(monkeypatch, 0.002)
        pipeline = tiny.pipeline()
        ranker: Any = FixedRanker()  # of a ranker only what times single searches
        for _ in range(2):  # what is measured is not measured again
            measure_cell(pipeline, ranker, Need("bm25", 3, 3), "e" * 64, "f" * 64)
        assert ranker.depths == [3]
        assert pipeline.measurements.cost_time("e" * 64) == pytest.approx((7, len(QUERIES)))
        measure_cell(pipeline, ranker, Need("hybrid", 3, 3), "d" * 64, "f" * 64)
        assert pipeline.measurements.cost_time("d" * 64) is None, "its ranking was not timed"
        keep_part(pipeline, "latency", "f" * 64, Part({"q1": 4.0}), asset="rankings")
        measure_cell(pipeline, ranker, Need("hybrid", 3, 3), "d" * 64, "f" * 64)
        assert pipeline.measurements.cost_time("d" * 64) == pytest.approx((4, 1))
        assert ranker.depths == [3]


def test_every_retriever_is_timed_once(tiny: Tiny) -> None:
    found = latencies(tiny)
    assert set(found) == {(name, False) for name in tiny.config["retrievers"]}
    for measured in found.values():
        assert measured["amount"] == len(QUERIES)
        assert measured["asset"] == "rankings"
        samples = measured["samples_ms"]
        assert samples is not None
        assert set(samples) == {query["query_id"] for query in QUERIES}
        p50, p95, p99 = measured["p50_ms"], measured["p95_ms"], measured["p99_ms"]
        assert p50 is not None
        assert p95 is not None
        assert p99 is not None
        assert 0 < p50 <= p95 <= p99


def test_no_sample_and_a_slow_clock_change_no_result(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is computed anew, with no, with few and with other measurements."""
    expected = tiny.snapshot().content
    off = Tiny(tmp_path / "off")
    off.config["measurements"] = {"latency_sample": 0}
    off.write().run()
    assert latencies(off) == {}
    assert off.snapshot().content == expected
    slow_clock(monkeypatch, 0.3)
    slow = all_timed(Tiny(tmp_path / "slow"))
    slow.run()
    assert 0 < latencies(slow)["bm25", False]["amount"] < len(QUERIES)
    assert slow.snapshot().content == expected


Amounts = dict[tuple[str, bool], int]


def embedded(tiny: Tiny) -> Amounts:
    """The texts embedded, by artifact and whether they were cached."""
    pipeline, found = tiny.pipeline(), {}
    keys = [key for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
    for key in keys:
        if key.asset in ("embedding_index", "embedding_queries"):
            fingerprint = pipeline.artifact(key).manifest.fingerprint
            for cached in (False, True):
                one = pipeline.measurements.find("embed", fingerprint, cached=cached)
                assert one is not None
                found[key.asset, cached] = one["amount"]
    return found


def test_with_a_model_the_query_is_encoded_past_the_cache(with_minilm: Tiny) -> None:
    all_timed(with_minilm).run()
    n_chunks, n_queries = 18, len(QUERIES)
    assert embedded(with_minilm) == {
        ("embedding_index", False): n_chunks,
        ("embedding_index", True): 0,
        ("embedding_queries", False): n_queries,
        ("embedding_queries", True): 0,
    }
    found = latencies(with_minilm)
    assert {name for name, _ in found} == {"bm25-whole", "minilm", "mixed"}
    fast, slow = (found[name, False]["samples_ms"] or {} for name in ("bm25-whole", "minilm"))
    assert sum(slow.values()) > 5 * sum(fast.values()), "looking a vector up takes no time"
    # The times of the model stay, though it is not needed for queries any more.
    with_minilm.replace("lost.md", "Passports are handed", "Wallets are handed")
    with_minilm.run()
    amounts = embedded(with_minilm)
    assert amounts["embedding_index", False] + amounts["embedding_index", True] == n_chunks
    assert 0 < amounts["embedding_index", False] < 4
    assert latencies_of_current(with_minilm, "minilm", cached=False)["amount"] > 0


def latencies_of_current(tiny: Tiny, retriever: str, *, cached: bool) -> Measurement:
    pipeline = tiny.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, retriever, 5))
    found = pipeline.measurements.find("latency", run.manifest.facts["ranking"], cached=cached)
    assert found is not None
    return found


def test_a_local_reranker_is_timed_past_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking scores up takes no time, and says nothing of a query that is new.

    A ranking of other code is a new one: its time is measured although all scores are known.
    """
    tiny = Tiny(tmp_path / "reranked")
    base = {"type": "bm25", "chunking": "whole"}
    model = str(cross_encoder(tmp_path / "model"))
    crossed = {"type": "cross_encoder", "input": "bm25", "candidates": 3, "model": model}
    mmr = {"type": "mmr", "input": "bm25", "candidates": 3}
    maxsim = {**mmr, "type": "maxsim"}
    tiny.config["retrievers"] = {"bm25": base, "crossed": crossed, "mmr": mmr, "maxsim": maxsim}
    tiny.config |= {"top_k": [5], "metrics": ["ndcg"]}
    scored: list[int] = []
    score = CrossEncoderScorer.score

    def counted(self: CrossEncoderScorer, pairs: Sequence[Pair]) -> Scores:
        scored.append(len(pairs))
        return score(self, pairs)

    monkeypatch.setattr(CrossEncoderScorer, "score", counted)
    all_timed(tiny).run()
    assert set(latencies(tiny)) == {(name, False) for name in tiny.config["retrievers"]}
    assert len(scored) > 2 + len(QUERIES), "each query once more, past the cache"
    scored.clear()
    tiny.configure("bm25", k1=1.21)  # the same candidates in the same order, with other scores
    assert tiny.run()
    assert not scored, "another setting of what it reads takes a reranker as long"
    assert latencies_of_current(tiny, "crossed", cached=False)
    _only_caches_are_left(tiny)
    assert tiny.run()
    assert scored, "the model is loaded for the measurement"
    assert set(latencies(tiny)) == {(name, False) for name in tiny.config["retrievers"]}

    def unavailable(self: CrossEncoderScorer, pairs: Sequence[Pair]) -> Scores:
        raise ModelUnavailable("no such model")

    monkeypatch.setattr(CrossEncoderScorer, "score", unavailable)
    _only_caches_are_left(tiny)
    assert tiny.run(), "known scores need no model"
    assert set(latencies(tiny)) == {("bm25", False), ("mmr", False), ("maxsim", False)}


def _only_caches_are_left(tiny: Tiny) -> None:
    forget_models()
    shutil.rmtree(tiny.settings.store / MEASUREMENTS)
    shutil.rmtree(tiny.settings.store / OBJECTS)
