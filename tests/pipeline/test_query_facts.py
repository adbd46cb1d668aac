"""``query_facts`` in an experiment: what the YAML may ask for, and what counts because of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.html import render
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny

Fields = dict[str, list[Any]]
Facts = dict[str, dict[str, Any]]


def ask(tiny: Tiny, fields: Fields, **config: Any) -> None:
    """Give the queries fields, and the experiment keys."""
    values = [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
    tiny.write_rows("queries.jsonl", [{**q, **v} for q, v in zip(QUERIES, values, strict=True)])
    tiny.config |= config
    tiny.write_config()


def facts(tiny: Tiny) -> Facts:
    pipeline = tiny.pipeline()
    for asset in ("documents", "queries", "qrels", "query_facts"):
        pipeline.materialize(asset, [QUERY_FACTS_KEY.of(asset)])
    rows = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    return {row.pop("query_id"): row for row in rows}


def test_fields_of_the_queries(one: Tiny) -> None:
    folds = ["dev", "dev", "test", "test", "test", "test"]
    fields: Fields = {"fold": folds, "asked": [1, 2, 3, 4, 5, 6], "answer": ["ten", *"bcdef"]}
    ask(one, fields, split={"field": "fold"}, weight="asked", statistics={"cluster": "query.fold"})
    found = facts(one)
    assert found["q1"] == {
        "answers": ["ten"],
        "weight": 1.0,
        "split": "dev",
        "cluster": "query.fold:dev",
        "unanswerable": False,
    }
    assert found["q6"]["weight"] == 6.0


def test_clusters_by_document_stay_on_one_side(one: Tiny) -> None:
    judged = [{"query_id": f"q{n}", "doc_id": f"{d}.md"} for n, d in enumerate(DOCUMENT_OF, 1)]
    one.write_rows("judgments.jsonl", judged)
    one.config |= {"split": {"dev": 0.5, "seed": 4}, "statistics": {"cluster": "document"}}
    one.write_config()
    found = facts(one)
    sides: dict[str, set[str]] = {}
    for row in found.values():
        sides.setdefault(row["cluster"], set()).add(row["split"])
    assert sorted(sides) == ["document:crew.md", "document:fares.md"]
    assert all(len(side) == 1 for side in sides.values())


DOCUMENT_OF = ["fares", "fares", "fares", "crew", "crew", "crew"]


@pytest.mark.parametrize(
    ("fields", "config", "place", "problem"),
    [
        (
            {"fold": ["dev", "tset", "test", "test", "test", None]},
            {"split": {"field": "fold"}},
            "split.field",
            "query 'q2' has 'fold': \"tset\"; must be dev or test (and 1 more query)",
        ),
        (
            {"fold": ["dev"] * 6},
            {"split": {"field": "fold"}},
            "split.field",
            "no query is in test: all 6 have the other value of 'fold'",
        ),
        (
            {},
            {"split": {"dev": 0.001, "seed": 0}},
            "split",
            "no query is in dev: dev: 0.001 and seed: 0 put all 6 queries on the other side; "
            "choose another share or seed",
        ),
        (
            {"asked": [1, 2, 3, 0, 5, 6]},
            {"weight": "asked"},
            "weight",
            "query 'q4' has 'asked': 0; must be a positive number, at most 2^53",
        ),
        (
            {"page": [1, 2, 3, 4, 5, 6]},
            {"statistics": {"cluster": "query.pgae"}},
            "statistics.cluster",
            "no query has the field 'pgae'; found: page",
        ),
    ],
)
def test_a_bad_value_is_one_line_with_file_line_and_key(
    one: Tiny, fields: Fields, config: dict[str, Any], place: str, problem: str
) -> None:
    ask(one, fields or {"x": [1] * 6}, **config)
    file = one.folder / "experiment.yaml"
    keys = [line.split(":")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    with pytest.raises(DataError) as caught:
        facts(one)
    line = 1 + keys.index(place.split(".")[-1])
    assert str(caught.value) == f"{file}:{line}: `{place}`: {problem}"


def test_an_unreadable_answer_is_noted(one: Tiny) -> None:
    ask(one, {"answers": [["x"], [], "y", {"text": "z"}, True, None]})
    found = facts(one)
    assert [row["answers"] for row in found.values()] == [["x"], [], ["y"], [], [], []]
    notes = one.pipeline().artifact(QUERY_FACTS_KEY).manifest.facts["notes"]
    assert notes == [
        "2 queries have an answer that is not a text; their answers do not count: q4, q5"
    ]


def test_a_cluster_that_a_field_cuts_is_noted(one: Tiny) -> None:
    fields = {"fold": ["dev", "test"] * 3, "page": ["a", "a", "b", "c", "d", "e"]}
    ask(one, fields, split={"field": "fold"}, statistics={"cluster": "query.page"})
    facts(one)
    artifact = one.pipeline().artifact(QUERY_FACTS_KEY)
    assert artifact.manifest.facts == {
        "n_dev": 3,
        "n_test": 3,
        "notes": ["1 cluster has queries in dev and in test: query.page:a"],
    }


def test_means_by_split_and_weight_by_hand(one: Tiny) -> None:
    fields: Fields = {"fold": ["dev", "dev", *["test"] * 4], "n": [1, 2, 3, 4, 5, 8]}
    ask(one, fields, split={"field": "fold"}, weight="n")
    result = evaluated(one.pipeline())
    values = {
        row["query_id"]: row["mrr"] for row in result.query_metrics(1)["bm25-whole"].to_pylist()
    }
    expected = {
        "test": (3 * values["q3"] + 4 * values["q4"] + 5 * values["q5"] + 8 * values["q6"]) / 20,
        "dev": (values["q1"] + 2 * values["q2"]) / 3,
    }
    board = result.leaderboard.to_pylist()
    assert [row["split"] for row in board] == ["test", "test", "dev", "dev"]
    for row in board:
        if row["retriever"] == "bm25-whole":
            assert row["mrr"] == pytest.approx(expected[row["split"]])
    assert shown(result)[0] == "tiny: test, top_k 1, weighted mean over 4 queries"
    assert shown(result, "dev")[0] == "tiny: dev, top_k 1, weighted mean over 2 queries"
    page = render(result)
    assert "Weighted means over 4 answerable queries of the test split" in page
    slices = {one.value: one.n_queries for one in result.slices()}
    assert slices == {"engines": 1, "safety": 2}  # q1 and q2, fares and wind, are in dev


def test_tuned_retrievers_are_not_ranked_on_dev_and_it_is_said(one: Tiny) -> None:
    one.config["split"] = {"dev": 0.5, "seed": 0}
    one.write_config()
    experiment = dataclasses.replace(load_experiment(one.folder), tuned=frozenset({"bm25"}))
    result = evaluated(Pipeline(experiment, one.settings))
    places = {
        (row["split"], row["retriever"]): row["position"] for row in result.leaderboard.to_pylist()
    }
    assert places["dev", "bm25"] is None
    assert places["dev", "bm25-whole"] == 1
    assert {places["test", name] for name in ("bm25", "bm25-whole")} <= {1, 2}
    lines = shown(result, "dev")
    assert lines[3].split()[:2] == ["-", "bm25"]
    reason = "bm25: not ranked, its parameters were chosen on dev; `--split test` ranks it"
    assert [line for line in lines if "not ranked" in line] == [reason]
    assert not any("not ranked" in line for line in shown(result))
