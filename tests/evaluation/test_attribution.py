"""At which stage evidence was found or lost."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.cli import main
from rag_assets.evaluation.attributions_stage import PLACES, attributions, places
from rag_assets.evaluation.metrics import query_metrics
from tests.labels.health.tables import qrels
from tests.made_tables import Label, judgment_table, query_table, run_table
from tests.tiny_experiment import Tiny

Lists = Mapping[str, Sequence[str]]
"""Query -> units, best first."""


def attribute(
    ranking: Lists,
    labels: Sequence[Label],
    *,
    k: int = 2,
    family: str = "lexical",
    inputs: Mapping[str, Lists] | None = None,
    corpus: Sequence[str] = ("d",),
    documents: Mapping[str, str] | None = None,
) -> pa.Table:
    """Attribute; every evidence names the document ``d`` unless ``documents`` says another."""
    named = documents or {}
    return attributions(
        run_table(ranking),
        judgment_table(labels),
        qrels(*((query, e, named.get(e, "d"), None, grade) for query, e, _, grade in labels)),
        pa.table({"document_id": pa.array(list(corpus), pa.string())}),
        k=k,
        family=family,
        inputs={name: run_table(lists) for name, lists in (inputs or {}).items()},
    )


def labels_of(evidences: Mapping[str, Sequence[str | None]]) -> list[Label]:
    """The labels of a query; an evidence without units is satisfied by none."""
    return [("q", name, unit, 1) for name, units in evidences.items() for unit in units or [None]]


def one(ranking: Sequence[str], inputs: Mapping[str, Sequence[str]], family: str) -> str:
    """The place of an evidence that the unit ``x`` alone satisfies."""
    lists = {name: {"q": items} for name, items in inputs.items()}
    table = attribute({"q": ranking}, [("q", "e", "x", 1)], family=family, inputs=lists)
    return str(table.to_pylist()[0]["lost_at"])


@pytest.mark.parametrize(("family", "lost"), [("fused", "fusion"), ("reranked", "reranking")])
def test_what_reads_others(family: str, lost: str) -> None:
    deep, none = ["a", "b", "x"], ["a", "b"]
    assert one(["x"], {"i": deep, "j": none}, family) == "found"
    assert one(["a", "b", "x"], {"i": none, "j": ["x"]}, family) == f"lost_in_{lost}"
    assert one(["a", "b"], {"i": ["x"], "j": none}, family) == f"lost_in_{lost}"
    assert one(["a", "b", "x"], {"i": deep, "j": none}, family) == "cut_at_k"
    assert one(["a", "b"], {"i": deep}, family) == "cut_at_k"  # below what is stored
    assert one(["a", "b"], {"i": none, "j": []}, family) == "below_candidates"


def test_labels_that_nothing_can_satisfy() -> None:
    labels: list[Label] = [("q", "chunk", None, 1), ("q", "corpus", None, 1), ("q", "zero", "a", 0)]
    table = attribute({"q": ["a"]}, labels, documents={"corpus": "gone"})
    columns = ("evidence_id", "lost_at", "n_relevant_units", "rank")
    assert [tuple(row[name] for name in columns) for row in table.to_pylist()] == [
        ("chunk", "no_chunk", 0, None),
        ("corpus", "not_in_corpus", 0, None),
    ]


def test_the_best_of_several_units_counts_and_a_grade_of_zero_satisfies_nothing() -> None:
    labels: list[Label] = [("q", "e", "b", 1), ("q", "e", "c", 2), ("q", "e", "a", 0)]
    (row,) = attribute({"q": ["a", "b", "c"]}, labels).to_pylist()
    assert (row["lost_at"], row["rank"], row["n_relevant_units"]) == ("found", 2, 2)


def test_ranks_in_the_inputs_are_in_their_order() -> None:
    inputs = {"zebra": {"q": ["a", "x"]}, "ant": {"q": ["a"]}, "cat": {"q": ["x", "y"]}}
    labels: list[Label] = [("q", "e", "x", 1), ("q", "e", "y", 1), ("p", "f", "x", 1)]
    table = attribute({"q": ["x"]}, labels, family="fused", inputs=inputs)
    assert [(row["query_id"], row["input_ranks"]) for row in table.to_pylist()] == [
        ("p", [None, None, None]),
        ("q", [2, None, 1]),
    ]
    assert table.column("inputs").to_pylist() == [["zebra", "ant", "cat"]] * 2


def test_counts_recall_and_ceiling() -> None:
    labels: list[Label] = [("p", "a", "x", 1), ("p", "b", "y", 1), ("q", "c", "z", 1)]
    inputs = {"i": {"p": ["x", "k", "y"], "q": ["k"]}}
    table = attribute({"p": ["x", "k", "y"]}, labels, family="fused", inputs=inputs)
    found = places(table)
    assert found is not None
    assert (found.n_queries, found.n_evidences) == (2, 3)
    assert {place: n for place, n in found.counts.items() if n} == {
        "found": 1,
        "cut_at_k": 1,
        "below_candidates": 1,
    }
    assert list(found.counts) == list(PLACES)
    assert (found.recall, found.ceiling) == (0.25, 0.5)
    assert found.share("found") == pytest.approx(1 / 3)
    of_q = places(table, ["q", "unknown"])
    assert of_q is not None
    assert (of_q.n_evidences, of_q.recall, of_q.ceiling) == (1, 0.0, 0.0)


UNITS = [f"u{number}" for number in range(7)]
RANKING = st.lists(st.sampled_from(UNITS), unique=True)
EVIDENCES = st.lists(st.sets(st.sampled_from(UNITS), max_size=3), min_size=1, max_size=5)


@settings(max_examples=12, deadline=None)
@given(rankings=st.tuples(RANKING, RANKING, RANKING), evidences=EVIDENCES, k=st.integers(1, 8))
def test_what_is_found_is_recall(
    rankings: tuple[list[str], list[str], list[str]], evidences: list[set[str]], k: int
) -> None:
    """Every evidence has one place, and the share found is recall@k as the metrics have it."""
    labels = labels_of({f"e{number}": sorted(units) for number, units in enumerate(evidences)})
    own, *others = rankings
    inputs = {f"i{number}": {"q": ranking} for number, ranking in enumerate(others)}
    family = {"fused": inputs, "lexical": {}}
    for name, read in family.items():
        found = places(attribute({"q": own}, labels, k=k, family=name, inputs=read))
        assert found is not None
        assert sum(found.counts.values()) == len(evidences)
        runs, judged = {"r": run_table({"q": own})}, {"j": judgment_table(labels)}
        cell = query_metrics(runs, judged, {"r": "j"}, query_table(["q"]), [("r", k)])["r", k]
        assert found.recall == pytest.approx(cell.column("recall")[0].as_py(), abs=1e-12)
        assert found.counts["no_chunk"] == cell.column("n_unreachable")[0].as_py()


TEXT = (Path(__file__).resolve().parents[2] / "docs" / "attribution.md").read_text("utf-8")
EXAMPLES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S)]
COMMANDS = re.findall(r"^\$ rag-assets (.*)$", TEXT, re.M)
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: dict[str, Any]) -> None:
    table = attribute(
        {"q": example["ranking"]},
        labels_of(example["units"]),
        k=example["k"],
        family="fused" if "inputs" in example else "lexical",
        inputs={name: {"q": items} for name, items in example.get("inputs", {}).items()},
        documents=dict.fromkeys(example.get("gone", ()), "gone"),
    )
    assert {row["evidence_id"]: row["lost_at"] for row in table.to_pylist()} == example["lost_at"]
    counted = places(table)
    assert counted is not None
    assert counted.recall == pytest.approx(example["recall"], abs=1e-6)
    assert counted.ceiling == example.get("ceiling")


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed_answers: Tiny) -> None:
    """On a small experiment in the place of the handbook."""
    shutil.copytree(computed_answers.folder, tmp_path / "data" / "handbook")
    shutil.copytree(computed_answers.settings.store, tmp_path / "data" / "store")
    monkeypatch.chdir(tmp_path)
    for name in ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    for command in COMMANDS:
        done = CliRunner(env={"COLUMNS": "80"}).invoke(main, shlex.split(command))
        assert done.exit_code == 0, done.output
        if not command.startswith("evaluate") and "csv" not in command:
            assert max(map(len, done.stdout.splitlines())) <= 80
    with duckdb.connect("data/store/warehouse.duckdb", read_only=True) as warehouse:
        rows = warehouse.sql(QUERIES[0]).fetchall()
    assert ("bm25", "found", 7) in rows
