"""Answers on the command line: the table, the exit code, and asking again for what failed."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.errors import Incomplete, NotEvaluated, UsageError
from rag_assets.report.answers import answer_rows
from rag_assets.report.result import EvaluationResult
from tests.answers.answering import with_answers
from tests.llm.server import error, serving
from tests.tiny_experiment import Tiny


def command(tiny: Tiny, *words: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "100", "DAGSTER_HOME": None})
    name, *rest = words
    store = ["--store", str(tiny.settings.store)]
    return runner.invoke(main, [name, str(tiny.folder), *rest, *store])


def test_the_leaderboard_has_a_table_of_answers(fresh: Tiny, computed_answers: Tiny) -> None:
    with_answers(fresh.start_from(computed_answers))
    done = command(fresh, "evaluate")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("1 question has no prediction, and counts as failed: q5") == 1
    board = command(fresh, "leaderboard").stdout
    lines = board[board.index("answers to 7 questions") :].splitlines()
    headings = ["answerer", "F1", "interval", "EM", "grounded", "abstained", "failed"]
    assert lines[1].split() == headings
    assert lines[2].split()[:2] == ["official@-", "0.5746"]
    assert lines[2].split()[4] == "0.4286"
    assert lines[3].split()[0] == "read@3"
    result = EvaluationResult.current(fresh.artifacts)
    rows = {(row["answerer"], row["top_k"]): row for row in answer_rows(result, "all")}
    assert rows["official", None]["n_failed"] == 1
    row = rows["official", None]
    low, mean, high = (float(str(row[f"answer_f1{end}"])) for end in ("_low", "", "_high"))
    assert low < mean < high
    assert json.loads(command(fresh, "leaderboard", "--format", "json").stdout)


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
        done = command(fresh, "evaluate")
        assert done.exit_code == Incomplete.exit_code
        assert "incomplete: plain@3 lacks 1 of 7 answers" in done.stderr
        server.forget_rules()
        n = len(server.received)
        again = command(fresh, "evaluate", "--retry-failed")
        assert again.exit_code == 0, again.output
        assert len(server.received) == n + 1


def test_attribution_goes_on_to_the_answer(fresh: Tiny, computed_answers: Tiny) -> None:
    fresh.start_from(computed_answers)
    assert command(fresh, "evaluate").exit_code == 0
    nothing = command(fresh, "attribution", "--answers")
    assert nothing.exit_code == NotEvaluated.exit_code
    assert "`answers` in experiment.yaml" in nothing.stderr
    with_answers(fresh)
    assert command(fresh, "evaluate").exit_code == 0
    rows = json.loads(command(fresh, "attribution", "--answers", "--format", "json").stdout)
    official = {row["outcome"]: row["n"] for row in rows if row["answerer"] == "official@-"}
    assert official["failed"] == 1
    assert sum(official.values()) == 7
    assert "from corpus to answer" in command(fresh, "attribution", "--answers").stdout
    refused = command(fresh, "attribution", "--answers", "--retriever", "bm25")
    assert refused.exit_code == UsageError.exit_code
    assert "--answers" in refused.stderr
