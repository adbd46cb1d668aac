"""``query_facts`` in an experiment: what the YAML may ask for, and what counts because of it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rag_assets.errors import DataError
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluations import record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages.query_facts import QUERY_FACTS_KEY
from rag_assets.pipeline.stages.runs import run_key
from rag_assets.reporting.html import render
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.rows import leaderboard_rows
from rag_assets.reporting.terminal import leaderboard_view
from tests.tiny_experiment import QUERIES, Tiny, materialize

Fields = dict[str, list[Any]]
Facts = dict[str, dict[str, Any]]


@pytest.fixture
def one(tmp_path: Path) -> Tiny:
    """Two retrievers, one cut-off."""
    tiny = Tiny(tmp_path / "one")
    kept = ("bm25", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in kept}
    tiny.config |= {"top_k": [1], "primary": "mrr@1", "metrics": ["mrr"]}
    return tiny.write()


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
    last = len(file.read_text(encoding="utf-8").splitlines())
    line = last - 1 if place == "split" else last
    with pytest.raises(DataError) as caught:
        facts(one)
    assert str(caught.value).startswith(f"{file}:")
    where, _, text = str(caught.value).removeprefix(f"{file}:").partition(": ")
    assert text == f"`{place}`: {problem}"
    assert int(where) in {line, last - 1, last - 2}
    assert (
        str(place.split(".")[-1]) in file.read_text(encoding="utf-8").splitlines()[int(where) - 1]
    )


def test_an_unreadable_answer_is_noted(one: Tiny) -> None:
    ask(one, {"answers": [["x"], [], "y", {"text": "z"}, True, None]})
    found = facts(one)
    assert [row["answers"] for row in found.values()] == [["x"], [], ["y"], [], [], []]
    notes = one.pipeline().artifact(QUERY_FACTS_KEY).manifest.facts["notes"]
    assert notes == ["2 queries have an answer that is no text, so none of theirs counts: q4, q5"]


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


def evaluated(pipeline: Pipeline) -> EvaluationResult:
    materialize(pipeline)
    evaluation = record(pipeline, started=datetime.now(UTC), trigger="test", computed=0)
    return EvaluationResult(pipeline.store.root, evaluation)


def shown(result: EvaluationResult, split: str | None = None) -> list[str]:
    """What a terminal of 80 columns shows of one split."""
    selection = Selection(tuple(result.run_retrievers), (1,))
    rows = leaderboard_rows(result.leaderboard, selection, result.chosen_split(split))
    console = Console(width=80)
    with console.capture() as capture:
        console.print(leaderboard_view(result, rows))
    return [line.rstrip() for line in capture.get().splitlines()]


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


def failing(one: Tiny, *query_ids: str) -> Pipeline:
    """The experiment, after bm25 failed on some queries."""
    pipeline = one.pipeline()
    materialize(pipeline)
    pipeline = one.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, "bm25", 1))
    object.__setattr__(run.manifest, "failures", dict.fromkeys(query_ids, "timed out"))
    return pipeline


def test_a_failed_query_is_no_zero_and_the_evaluation_is_not_complete(one: Tiny) -> None:
    assert evaluated(one.pipeline()).evaluation.complete
    result = evaluated(failing(one, "q1", "q2"))
    assert not result.evaluation.complete
    metrics = {row["query_id"]: row for row in result.query_metrics(1)["bm25"].to_pylist()}
    assert [q for q, row in metrics.items() if row["failed"]] == ["q1", "q2"]
    assert [q for q, row in metrics.items() if row["mrr"] is None] == ["q1", "q2"]
    board = {row["retriever"]: row for row in result.leaderboard.to_pylist()}
    kept = [row["mrr"] for query_id, row in metrics.items() if query_id not in {"q1", "q2"}]
    row = board["bm25"]
    assert row["mrr"] == sum(kept) / 4
    assert (row["n_attempted"], row["n_failed"], row["n_queries"]) == (6, 2, 4)
    assert board["bm25-whole"]["n_queries"] == 6
    lines = shown(result)
    assert lines[0] == "tiny: top_k 1, mean over 6 queries"
    assert any(line.split()[1:3] == ["bm25", "!"] for line in lines)
    assert "bm25 !: failed on 2 of 6 queries, which are in no mean" in lines
    assert "a retriever failed on queries" in render(result)


def test_failures_are_part_of_what_metrics_are_made_from(one: Tiny) -> None:
    key = failing(one).recipe
    calm, failed = failing(one), failing(one, "q1")
    (cell,) = (k for s in calm.stages() for k in s.keys(calm.experiment) if str(k) == CELL)
    assert calm.recipe(cell) != failed.recipe(cell)
    assert calm.recipe(cell) == key(cell)


CELL = "metrics[retriever=bm25, top_k=1]"


def test_a_retriever_that_failed_on_every_query_has_no_value(one: Tiny) -> None:
    result = evaluated(failing(one, *(q["query_id"] for q in QUERIES)))
    lines = shown(result)
    (line,) = (line for line in lines if "bm25 !" in line and "failed" not in line)
    assert line.split()[:4] == ["2", "bm25", "!", "-"]
    assert "<strong>bm25-whole</strong> has the highest mrr@1" in render(result)
    rows = json.loads(json.dumps(leaderboard_rows(result.leaderboard, EVERYTHING, "all")))
    assert [row.get("mrr") is None for row in rows] == [False, True]


EVERYTHING = Selection(("bm25", "bm25-whole"), (1,))


def test_an_evaluation_of_an_older_version_asks_for_another(tiny: Tiny) -> None:
    import pyarrow.parquet as pq

    from rag_assets.errors import StoreError

    result = EvaluationResult.current(tiny.artifacts)
    file = tiny.artifacts / result.evaluation.entries_of("leaderboard")[0].path
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["split"]), file)
    with pytest.raises(StoreError, match="is of an older version; evaluate it again"):
        EvaluationResult.current(tiny.artifacts).leaderboard  # noqa: B018
