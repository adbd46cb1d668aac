from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from math import log2
from pathlib import Path

import pytest
from click.testing import Result

from rag_assets.evaluation.dialects import DIALECTS

Invoke = Callable[..., Result]

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
RUN = "q1 Q0 a 1 3.0 t\nq1 Q0 x 2 2.0 t\nq2 Q0 x 1 1.0 t\nq9 Q0 a 1 1.0 t\n"
QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 a 1\n"
"""q1: one of two; q2: nothing found; q3 is missing from the run."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "run.trec").write_text(RUN, encoding="utf-8")
    (tmp_path / "qrels.txt").write_text(QRELS, encoding="utf-8")
    return ("score", "--run", tmp_path / "run.trec", "--qrels", tmp_path / "qrels.txt")


def test_a_tools_numbers_under_its_own_names(invoke: Invoke, files: tuple[object, ...]) -> None:
    result = invoke(*files, "--dialect", "autorag", "--format", "json")
    assert result.exit_code == 0
    # Of q1: recall 1/2, precision 1/2, its groups' first documents at 1 and nowhere; q2: all 0.
    ndcg = 1 / (1 + 1 / log2(3))
    values = {"f1": 0.5, "recall": 0.5, "precision": 0.5, "ndcg": ndcg, "mrr": 0.5, "map": 0.5}
    assert json.loads(result.stdout) == pytest.approx(
        {f"retrieval_{name}": value / 2 for name, value in values.items()}
    )
    say = "as AutoRAG 0.3.27; 2 of 3 queries have a value; 1 of the run not in the qrels"
    assert " ".join(result.stderr.split()) == say


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_prints_its_default_metrics(
    invoke: Invoke, files: tuple[object, ...], dialect: str
) -> None:
    result = invoke(*files, "--dialect", dialect)
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == list(DIALECTS[dialect].defaults)


def test_ragas_comes_with_a_warning(invoke: Invoke, files: tuple[object, ...]) -> None:
    asked = ("--metrics", "llm_context_precision_without_reference", "--format", "json")
    result = invoke(*files, "--dialect", "ragas", *asked)
    # q1 scores 1, q2 scores 0, and q3 is no row of its data.
    assert json.loads(result.stdout) == pytest.approx({asked[1]: 0.5})
    said = " ".join(result.stderr.split())
    assert "divides by what is relevant among the retrieved" in said
    assert "Without a reference the answer is taken for the truth" in said


def test_values_of_each_query(invoke: Invoke, files: tuple[object, ...]) -> None:
    asked = ("--dialect", "beir", "--metrics", "Recall@10,Hole@2", "--per-query")
    result = invoke(*files, *asked, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert rows == [
        {"query_id": "q1", "Recall@10": "0.5", "Hole@2": "0.5"},
        {"query_id": "q2", "Recall@10": "0.0", "Hole@2": "0.5"},
        {"query_id": "q3", "Recall@10": "", "Hole@2": "0.0"},
    ]
    means = invoke(*files, *asked[:-1], "--format", "csv").stdout
    assert means == f"Recall@10,Hole@2\n0.25,{round((0.5 + 0.5) / 3, 5)}\n"


def test_a_number_that_the_tool_does_not_give(invoke: Invoke, files: tuple[object, ...]) -> None:
    result = invoke(*files, "--dialect", "beir", "--metrics", "NDCG@5,MRR@5")
    assert result.exit_code == 0
    assert re.fullmatch(r"NDCG@5  0\.\d{4}\nMRR@5   -\n", result.stdout)
    problem = "query 'q9' stands in the run but not in the qrels, BEIR raises KeyError"
    assert f"MRR@5 has no value: {problem}" in result.stderr
    asked = ("--dialect", "llamaindex", "--metrics", "recall", "--format", "json")
    result = invoke(*files, *asked)
    assert json.loads(result.stdout) == {"recall": None}
    assert "query 'q3': nothing was retrieved, LlamaIndex raises ValueError" in result.stderr


def test_repeated_documents_are_reported(invoke: Invoke, tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.jsonl", tmp_path / "qrels.txt"
    rows = [{"qid": f"q{n:02d}", "retrieved_ids": ["a", "a", "x", "a"]} for n in range(22)]
    run.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    qrels.write_text("".join(f"q{n:02d} 0 a 1\n" for n in range(22)), encoding="utf-8")
    base = ("score", "--run", run, "--qrels", qrels)
    refused = invoke(*base)
    assert (refused.exit_code, refused.stdout) == (1, "")
    what = "'a' stands twice for query 'q00'; a unit is retrieved once"
    assert refused.stderr.startswith(f"error: {run}:1: `retrieved_ids`: {what}")
    result = invoke(*base, "--dialect", "autorag", "--metrics", "retrieval_precision")
    assert result.stdout == "retrieval_precision  0.2500\n"
    lines = result.stderr.splitlines()
    assert lines[0] == "query 'q00': document 'a' stands 3 times"
    assert lines[20] == "... and 2 more repeated documents"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--dialect", "trec"), "Invalid value for '--dialect'"),
        (
            ("--dialect", "beir", "--metrics", "ndcg@10"),
            "dialect beir: unknown metric 'ndcg@10'",
        ),
        (("--dialect", "beir", "--metrics", "NDCG"), "'NDCG' needs a cut-off, such as NDCG@10"),
        (("--dialect", "autorag", "--metrics", "retrieval_f1@0"), "must be at least 1"),
        (("--dialect", "beir", "--metrics", ","), "--metrics names no metric"),
        (("--dialect", "beir", "--trec-mean"), "--trec-mean is our own mean"),
    ],
)
def test_wrong_options(
    invoke: Invoke, files: tuple[object, ...], options: tuple[str, ...], expected: str
) -> None:
    result = invoke(*files, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in " ".join(result.stderr.split())


def test_the_commands_and_the_output_of_the_page(invoke: Invoke, tmp_path: Path) -> None:
    """docs/dialects.md: files are the blocks with a name, commands the lines with a dollar."""
    page = PAGE.read_text(encoding="utf-8")
    for name, text in re.findall(r"^`([\w.]+)`:\n\n```\n(.*?)```", page, re.M | re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    sessions = re.findall(r"^\$ rag-assets ([^\n]+)\n(.*?)(?=^```|^\$ )", page, re.M | re.S)
    assert len(sessions) >= 2
    for command, output in sessions:
        words = [str(tmp_path / word) if "." in word else word for word in command.split()]
        result = invoke(*words)
        assert result.exit_code == 0
        assert result.stdout == output


@pytest.fixture
def answers(tmp_path: Path) -> tuple[object, ...]:
    """A right answer, a wrong one to an unanswerable question, and none to a third question."""
    named = {"a": [{"text": "right", "answer_start": 0}], "b": [], "c": []}
    qas = [{"id": name, "question": "?", "answers": given} for name, given in named.items()]
    dev = {"data": [{"title": "t", "paragraphs": [{"context": "right", "qas": qas}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(dev), encoding="utf-8")
    (tmp_path / "answers.json").write_text('{"a": "Right.", "b": "wrong"}', encoding="utf-8")
    files = ("--run", tmp_path / "answers.json", "--qrels", tmp_path / "dev.json")
    return ("score", *files, "--dialect", "squad_v2_official")


def test_squads_own_numbers(invoke: Invoke, answers: tuple[object, ...], tmp_path: Path) -> None:
    result = invoke(*answers, "--format", "json")
    assert json.loads(result.stdout) == {
        "exact": 50.0,
        "f1": 50.0,
        "total": 2,
        "HasAns_exact": 100.0,
        "HasAns_f1": 100.0,
        "HasAns_total": 1,
        "NoAns_exact": None,
        "NoAns_f1": None,
        "NoAns_total": 2,
    }
    say = "as evaluate-v2.0.py; 2 of 3 questions; without a prediction, and in no mean of all: c"
    assert " ".join(result.stderr.split()) == say
    (tmp_path / "na.json").write_text('{"a": 0.5, "b": 0.5}', encoding="utf-8")
    best = ("--na-prob-file", tmp_path / "na.json", "--metrics", "best_exact,best_exact_thresh")
    assert invoke(*answers, *best).stdout.split() == [
        *("best_exact", "150.0000"),
        *("best_exact_thresh", "0.5000"),
    ]
    rows = invoke(*answers, "--per-query", "--format", "csv").stdout
    assert rows.split() == ["query_id,exact,f1", "a,1.0,1.0", "b,0.0,0.0", "c,,"]


def test_squads_own_names(invoke: Invoke, answers: tuple[object, ...], tmp_path: Path) -> None:
    result = invoke(*answers, "--metrics", "exact_match")
    assert result.exit_code == 2
    problem = "dialect squad_v2_official: unknown metric 'exact_match'"
    assert problem in " ".join(result.stderr.split())
    other = [*answers[:-1], "beir", "--na-prob-file", tmp_path / "na.json"]
    result = invoke(*other)
    assert result.exit_code == 2
    assert "--na-prob-file is for --dialect squad_v2_official" in " ".join(result.stderr.split())
