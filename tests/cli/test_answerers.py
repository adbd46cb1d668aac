"""Answerers and their answers on the command line, everywhere where retrievers are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

from rag_assets.errors import Incomplete
from rag_assets.pipeline.warehouse import rebuild
from tests.answers.answering import GOLDS, PREDICTIONS, with_answers, write_predictions
from tests.cli.conftest import Invoke, parsed
from tests.llm.server import error, serving
from tests.tiny_experiment import Tiny

OTHER = {**PREDICTIONS, "q1": "40 crowns", "q2": GOLDS["q2"][0], "q3": "beside", "q5": "at six"}
"""Against PREDICTIONS: half lost, won, half won, tied, failed no more."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, computed_answers: Tiny) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("answers")).start_from(computed_answers).write()
    with_answers(
        tiny,
        generators={
            "predicted": {"type": "file", "path": "predictions.json"},
            "other": {"type": "file", "path": "other.json"},
        },
        answers={
            "official": {"generator": "predicted"},
            "read": {"generator": "other", "retriever": "bm25", "top_k": [3]},
        },
    )
    (tiny.folder / "other.json").write_text(json.dumps({**OTHER, "q7": "the captain"}), "utf-8")
    tiny.run()
    tiny.snapshot()
    return tiny


def command_on(tiny: Tiny, invoke: Invoke) -> Invoke:
    def command(name: str, *arguments: object) -> Result:
        return invoke(name, tiny.folder, *arguments, "--store", tiny.root / "store")

    return command


@pytest.fixture(scope="module")
def run(tiny: Tiny, invoke: Invoke) -> Invoke:
    return command_on(tiny, invoke)


def test_a_pair_with_the_questions_that_moved(run: Invoke) -> None:
    row = parsed(run("compare", "official@-", "read@3", "--format", "json"))
    assert (row["answerer_a"], row["answerer_b"], row["metric"]) == (
        "official@-",
        "read@3",
        "answer_f1",
    )
    assert (row["n"], row["won"], row["tied"], row["lost"]) == (7, 3, 2, 2)
    # Without articles: q3 one of one word and one of two, q5 one of two and one of four.
    gained = {one["query_id"]: one["difference"] for one in row["most_won"] + row["most_lost"]}
    assert gained == pytest.approx({"q2": 7 / 9, "q3": 2 / 3, "q5": 1 / 3, "q1": -1 / 2, "q7": -1})
    assert row["difference"] == pytest.approx(sum(gained.values()) / 7)
    assert row["low"] <= row["difference"] <= row["high"]
    (first, *_) = row["most_won"]
    assert (first["golds"], first["answer_a"]) == (GOLDS["q2"], "in the wind")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["official@-", "bm25"], "bm25 is a retriever, and answer_f1 is a metric of answers"),
        (["bm25", "okapi", "--metric", "answer_em"], "bm25 is a retriever, and answer_em is"),
        (["official@-", "read@9"], "unknown answerer 'read@9' (did you mean 'read@3'?)"),
        (["official@-", "read@3", "--metric", "answer_f1@5"], "answer_f1 takes no cut-off"),
        (["--metric", "abstention_f1"], "abstention_f1 is not a mean over questions"),
        (["official@-", "read@3", "--metric", "ndcg"], "official@- is an answerer, and ndcg@5"),
    ],
)
def test_what_cannot_be_compared(run: Invoke, arguments: list[str], problem: str) -> None:
    failed = run("compare", *arguments)
    assert failed.exit_code == 2
    assert problem in failed.stderr


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory, computed_answers: Tiny) -> Tiny:
    """Two evaluations: other predictions, another retriever, and a document with another text."""
    tiny = Tiny(tmp_path_factory.mktemp("answers")).start_from(computed_answers).write()
    with_answers(
        tiny,
        generators={
            "predicted": {"type": "file", "path": "predictions.json"},
            "spans": {"type": "extractive"},
        },
        answers={
            "official": {"generator": "predicted"},
            "copy": {"generator": "spans", "retriever": "bm25", "top_k": [3]},
            "perfect": {"generator": "spans", "context": "gold", "chunking": "parts"},
        },
    )
    tiny.run()
    tiny.snapshot()
    write_predictions(tiny, {**OTHER, "q6": "after 500 hours", "q7": ""})
    tiny.replace("fares.md", "A dog needs a ticket of 10", "A dog needs a new ticket of 10")
    tiny.replace("judgments.jsonl", "A dog needs a ticket of 10", "A dog needs a new ticket of 10")
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture(scope="module")
def over(twice: Tiny, invoke: Invoke) -> Invoke:
    return command_on(twice, invoke)


def test_answers_that_changed_and_what_changed_them(over: Invoke) -> None:
    result = over("diff", "previous", "latest", "--intersection", "--format", "json")
    rows = {(row["answerer"], row["query_id"]): row for row in parsed(result)["answers"]}
    assert {one: row["cause"] for one, row in rows.items()} == {
        ("official@-", "q1"): "generator",
        ("official@-", "q2"): "generator",
        ("official@-", "q3"): "generator",
        ("official@-", "q5"): "generator",
        ("official@-", "q6"): "generator",
        ("copy@3", "q1"): "context",
        ("perfect@-", "q1"): "context",
    }
    first = rows["official@-", "q2"]
    assert (first["old"], first["new"]) == ("in the wind", GOLDS["q2"][0])
    assert first["answer_f1_change"] == pytest.approx(7 / 9)
    assert first["answer_em_change"] == 1.0
    assert rows["official@-", "q5"]["old"] is None


def test_a_diff_of_other_labels_is_of_what_is_the_same(over: Invoke) -> None:
    refused = over("diff", "previous", "latest", "--answerer", "official@-")
    assert refused.exit_code == 1
    assert "1 labelled query with other labels" in refused.stderr
    assert "official@-: 5 by generator" in refused.stdout
    row = parsed(
        over(
            *("diff", "previous", "latest", "--answerer", "official@-"),
            *("--intersection", "--format", "json"),
        )
    )["answer_metrics"][0]
    assert (row["answerer"], row["metric"], row["n"]) == ("official@-", "answer_f1", 6)
    # q2 7/9, q3 2/3, q5 1/3, q6 1/5; q4 and q7 as before.
    assert row["difference"] == pytest.approx((7 / 9 + 2 / 3 + 1 / 3 + 1 / 5) / 6)
    shown = over("diff", "previous", "latest", "--intersection").stdout
    assert "answer_f1 on 6 questions" in shown or "answer_f1 on 6 queries" in shown
    assert "ndcg@5 on" in shown


def test_a_gate_of_answers(over: Invoke) -> None:
    against = ["--against", "previous", "--intersection"]
    allowed = ("--max-drop", 0.4)  # six questions rule no smaller drop out
    passed = over("gate", "--answerer", "official@-", *allowed, *against, "--format", "json")
    outcome = parsed(passed)
    assert (outcome["metric"], outcome["passed"]) == ("answer_f1", True)
    (check,) = outcome["checks"]
    assert (check["retriever"], check["drop"]["n"]) == ("official@-", 6)
    every = parsed(over("gate", "--metric", "answer_em", *allowed, *against, "--format", "json"))
    names = [check["retriever"] for check in every["checks"]]
    assert names == ["official@-", "copy@3", "perfect@-"]
    assert "answerer" in over("gate", "--metric", "answer_em", *against).stdout
    both = over("gate", "--answerer", "copy@3", "--retriever", "bm25", *against)
    assert both.exit_code == 2
    assert "metric in common" in both.stderr


def test_floors_of_answers(run: Invoke) -> None:
    """What they are compared with is the mean that the leaderboard of answers has."""
    board = parsed(run("leaderboard", "--answers", "--format", "json"))
    for metric in ("answer_f1", "abstained", "abstention_f1"):
        means = {f"{row['answerer']}@{row['top_k'] or '-'}": row[metric] for row in board}
        limit = means["official@-"]
        words = ("--at-least", f"{metric}={limit!r}", "--answerer", "official@-")
        (floor,) = parsed(run("gate", *words, "--format", "json"))["floors"]
        assert (floor["name"], floor["value"]) == ("official@-", pytest.approx(limit))
        failed = run("gate", "--at-least", f"{metric}={limit + 1e-6!r}", *words[2:])
        assert failed.exit_code == 1, failed.output
        at_most = run("gate", "--at-most", f"{metric}={limit!r}", *words[2:], "--format", "json")
        assert parsed(at_most)["passed"]
    refused = run("gate", "--at-least", "nugget_v_strict=0.5")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "the floor nugget_v_strict >= 0.5 cannot be read: " in refused.stderr


def test_a_gate_says_what_answers_can_show(twice: Tiny, tmp_path: Path, invoke: Invoke) -> None:
    worse = twice.copy_to(tmp_path / "copy")
    write_predictions(worse, {f"q{n}": "no" for n in range(1, 8)})
    worse.run()
    worse.snapshot()
    arguments = ("--against", "previous", "--store", worse.root / "store")
    unknown = invoke("gate", worse.folder, "--metric", "answer_f1", *arguments)
    assert unknown.exit_code == 4
    assert "cannot tell: official@-: dropped by" in unknown.stdout
    assert "can be shown" in " ".join(unknown.stdout.split())
    assert invoke("gate", worse.folder, *arguments).exit_code == 0


def test_the_history_of_answerers(over: Invoke) -> None:
    rows = parsed(over("history", "--answerer", "official@-", "--format", "json"))
    assert [row["answerer"] for row in rows] == ["official@-"] * 2
    assert rows[0]["value"] == pytest.approx((1 + 2 / 9 + 1 + 0.8 + 1) / 7)
    assert rows[1]["n_queries"] == 7
    assert rows[1]["comparable"] is False
    assert rows[1]["change"] is None
    every = over("history", "--metric", "answer_em").stdout
    assert "answerer" in every.splitlines()[0]
    assert all(name in every for name in ("official@-", "copy@3", "perfect@-"))
    unknown = over("history", "--answerer", "copy@9")
    assert "unknown answerer 'copy@9' (did you mean 'copy@3'?)" in unknown.stderr


def test_slices_of_answerers(run: Invoke) -> None:
    arguments = ("leaderboard", "--by", "tag", "--metric", "answer_f1")
    rows = parsed(run(*arguments, "--format", "json"))
    safety = {row["answerer"]: row["answer_f1"] for row in rows if row["tag"] == "safety"}
    assert safety == {"official@-": pytest.approx(0.5), "read@3": pytest.approx(5 / 6)}
    assert "answer_f1 by query tag" in run(*arguments).stdout


def test_answers_without_labels_of_retrieval(tiny: Tiny, tmp_path: Path, invoke: Invoke) -> None:
    bare = tiny.copy_to(tmp_path / "copy")
    (bare.folder / "judgments.jsonl").unlink()
    arguments = ("--store", bare.root / "store")
    evaluated = invoke("evaluate", bare.folder, *arguments)
    assert evaluated.exit_code == 0, evaluated.output
    assert "answers to 7 questions" in evaluated.stdout
    pair = invoke("compare", bare.folder, "official@-", "read@3", "--format", "json", *arguments)
    assert parsed(pair)["won"] == 3
    invoke("evaluate", bare.folder, *arguments)
    gated = invoke("gate", bare.folder, "--metric", "answer_f1", "--against", "latest", *arguments)
    assert gated.exit_code == 0, gated.output
    board = invoke("leaderboard", bare.folder, "--answers", "--format", "json", *arguments)
    assert len(parsed(board)) == 2
    assert invoke("gate", bare.folder, "--against", "latest", *arguments).exit_code == 2
    classes = invoke("attribution", bare.folder, "--answers", *arguments)
    assert classes.exit_code == 1
    needed = "labels, and the metrics answer_em, answer_f1, abstained"
    assert f"`answers` in experiment.yaml, {needed}" in classes.stderr


def test_the_warehouse_has_answers(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        rows = connection.sql(
            "SELECT answerer, value FROM history_answers WHERE metric = 'answer_em' ORDER BY 1"
        ).fetchall()
        assert rows[0] == ("official@-", pytest.approx(3 / 7))
        joined = connection.sql(
            "SELECT count(*) FROM answers "
            "JOIN answer_metrics USING (experiment, answerer, query_id)"
        ).fetchall()
        assert joined == [(14,)]
        names = {row[0] for row in connection.sql("SHOW TABLES").fetchall()}
    assert {"answer_summary", "answer_comparisons", "answer_waterfall", "answer_contexts"} <= names


def test_answers_that_a_server_did_not_give_are_told_and_asked_again(
    fresh: Tiny, computed_answers: Tiny
) -> None:
    fresh.start_from(computed_answers)
    with serving(lambda text: "foam") as server:
        model = {"base_url": server.base_url, "model": "m", "api_key_env": None, "retries": 0}
        with_answers(
            fresh,
            llms={"near": model},
            generators={"writer": {"type": "llm", "llm": "near"}},
            answers={"plain": {"generator": "writer", "retriever": "bm25", "top_k": [3]}},
        )
        server.on("dog", error(500))
        done = fresh.command("evaluate", ".", columns=100)
        assert done.exit_code == Incomplete.exit_code
        assert "incomplete: plain@3 lacks 1 of 7 answers" in done.stderr
        page = (fresh.artifacts / "report.html").read_text(encoding="utf-8")
        (failed,) = re.findall(
            r"<summary>plain@3: 1</summary>\s*<ul class=.plain.>(.*?)</ul>", page
        )
        assert re.search(r"<code>q1</code> \S.*500", failed)
        server.forget_rules()
        n = len(server.received)
        again = fresh.command("evaluate", ".", "--retry-failed")
        assert again.exit_code == 0, again.output
        assert len(server.received) == n + 1
