"""``dataset: {sample: ...}``: some of the queries, drawn by the hash of their ids."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from rag_assets.assets.metadata import result_of
from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError
from rag_assets.experiment.load import load_experiment
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import render
from rag_assets.sources.dataset import Read, drawn
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from tests.query_sets.queries import queries_of
from tests.tiny_experiment import Tiny


def by_hash(ids: list[str], seed: int) -> list[str]:
    return sorted(ids, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).hexdigest())


def test_a_larger_sample_holds_the_smaller_one() -> None:
    ids = [f"q{n}" for n in range(300)]
    read = Read(queries_of(dict.fromkeys(ids, "a text")), ["before"])
    samples = {n: drawn(read, n, 1) for n in (1, 50, 100, 300, 999)}
    names = {n: one.table["query_id"].to_pylist() for n, one in samples.items()}
    for n in (1, 50, 100):
        assert set(names[n]) == set(by_hash(ids, 1)[:n])
        assert names[n] == [name for name in ids if name in names[n]]  # in their order
    assert set(names[1]) < set(names[50]) < set(names[100])
    assert names[300] == names[999] == ids
    assert set(drawn(read, 100, 2).table["query_id"].to_pylist()) != set(names[100])
    assert samples[50].notes == ["before", "50 of 300 queries are used, drawn by seed 1"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, EvaluationTable]:
    tiny = Tiny(Path(tmp_path_factory.mktemp("sample")))
    tiny.config["dataset"] = {**tiny.config["dataset"], "sample": {"queries": 3, "seed": 1}}
    tiny.config["metrics"] = ["ndcg", "tp", "fp", "fn", "tn", "idcg"]
    tiny.write().run()
    return tiny, EvaluationTable(tiny.artifacts, tiny.snapshot())


def test_only_the_sample_is_asked_and_judged(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    tiny, result = evaluated
    everything = load_experiment(tiny.folder).dataset.read_queries().table["query_id"].to_pylist()
    asked = {row["query_id"] for row in tiny.rows(QUERIES_KEY)}
    assert asked == set(by_hash(everything, 1)[:3])
    assert {row["query_id"] for row in tiny.rows(QRELS_KEY)} == asked  # other labels are no error
    assert tiny.facts(QRELS_KEY)["notes"] == []  # nor are those that are not asked without labels
    assert tiny.facts(QUERIES_KEY)["notes"] == ["3 of 6 queries are used, drawn by seed 1"]
    assert {row["n_attempted"] for row in result.rows} == {3}
    assert "0 errors" in tiny.command("validate", ".").output


def test_the_confusion_matrix_is_all_units(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    """Of a retriever over parts these are the chunks."""
    tiny, result = evaluated
    name, chunking = "bm25", tiny.config["retrievers"]["bm25"]["chunking"]
    n_units = len(tiny.rows(chunks_key(chunking)))
    for row in result.query_metrics(5)[name].to_pylist():
        if row["tp"] is not None:
            assert row["tp"] + row["fp"] + row["fn"] + row["tn"] == n_units
            assert row["idcg"] > 0


def test_every_headline_says_it(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    tiny, result = evaluated
    text = "a sample of 3 queries (seed 1)"
    assert text in str(result)
    assert text in render(result)
    assert text in str(result_of(tiny.pipeline())["winner"].value)
    for command in (["evaluate"], ["leaderboard"], ["compare"], ["gate", "--against", "anchor"]):
        if command[0] == "gate":
            tiny.command("anchor", ".")
        name, *rest = command
        assert text in tiny.command(name, ".", *rest, columns=200).output, name


def test_a_larger_sample_adds_to_the_smaller_one(
    evaluated: tuple[Tiny, EvaluationTable], tmp_path: Path
) -> None:
    tiny = evaluated[0].copy_to(tmp_path / "larger")
    before = tiny.ranked("bm25", 5)
    tiny.config["dataset"]["sample"]["queries"] = 5
    tiny.write_config()
    tiny.run()
    after = tiny.ranked("bm25", 5)
    assert all(after[name] == hits for name, hits in before.items() if hits)


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ({"queries": 0}, "`dataset.sample.queries`: should be greater than or equal to 1; found 0"),
        ({}, "`dataset.sample`: needs the key 'queries'"),
        ({"queries": 1, "share": 2}, "unknown key 'share'"),
    ],
)
def test_a_wrong_sample_is_one_line(tmp_path: Path, sample: Any, problem: str) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["dataset"] = {**tiny.config["dataset"], "sample": sample}
    tiny.write()
    with pytest.raises(ConfigError) as error:
        load_experiment(tiny.folder)
    assert problem in str(error.value)
    assert "experiment.yaml:" in str(error.value)
