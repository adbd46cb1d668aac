from __future__ import annotations

import csv
import gzip
import io
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
RunProcess = Callable[..., "subprocess.CompletedProcess[str]"]

RUN = "q1 Q0 d2 1 3.0 t\nq1 Q0 d1 2 2.0 t\nq1 Q0 d3 3 1.0 t\nq9 Q0 d1 1 1.0 t\n"
QRELS = "q1 0 d1 1\nq1 0 d3 1\nq2 0 d1 1\nq3 0 d1 0\n"
"""q1: relevant at ranks 2 and 3; q2 is missing from the run; q3 has no relevant document."""

NDCG = (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3))


@pytest.fixture
def files(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "run.trec").write_text(RUN, encoding="utf-8")
    (tmp_path / "qrels.txt").write_text(QRELS, encoding="utf-8")
    return ("score", "--run", tmp_path / "run.trec", "--qrels", tmp_path / "qrels.txt")


def test_means_and_what_they_are_over(invoke: Invoke, files: tuple[object, ...]) -> None:
    names = "mrr@10,P@2,nDCG,recall_100,ndcg_cut_10"
    result = invoke(*files, "--metrics", names, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == pytest.approx(
        {
            "mrr@10": 1 / 4,
            "P@2": 1 / 4,
            "nDCG": NDCG / 2,
            "recall_100": 1 / 2,
            "ndcg_cut_10": NDCG / 2,
        }
    )
    assert " ".join(result.stderr.split()) == (
        "2 queries averaged; 1 without a relevant document; 1 missing from the run (count 0); "
        "1 of the run not in the qrels (not scored)"
    )


def test_trec_mean(invoke: Invoke, files: tuple[object, ...]) -> None:
    result = invoke(*files, "--metrics", "mrr@10", "--trec-mean", "--format", "json")
    assert json.loads(result.stdout) == pytest.approx({"mrr@10": 1 / 6})
    assert result.stderr.startswith("3 queries averaged")


def test_default_metrics_as_a_table(invoke: Invoke, files: tuple[object, ...]) -> None:
    lines = invoke(*files).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "ndcg@10",
        "recall@100",
        "map@100",
        "mrr@100",
        "precision@10",
        "hit_rate@10",
    ]
    assert lines[3] == "mrr@100       0.2500"


def test_per_query(invoke: Invoke, files: tuple[object, ...]) -> None:
    base = (*files, "--metrics", "mrr@10", "--per-query", "--format")
    rows = json.loads(invoke(*base, "json").stdout)
    assert rows == [
        {"query_id": "q1", "mrr@10": 0.5},
        {"query_id": "q2", "mrr@10": 0.0},
        {"query_id": "q3", "mrr@10": None},
    ]
    table = list(csv.DictReader(io.StringIO(invoke(*base, "csv").stdout)))
    assert table[2] == {"query_id": "q3", "mrr@10": ""}
    assert invoke(*base, "markdown").stdout.splitlines()[2] == "| q1 | 0.5000 |"
    assert invoke(*base, "table").stdout.splitlines() == [
        "query_id  mrr@10",
        "q1        0.5000",
        "q2        0.0000",
        "q3             -",
    ]


def test_per_query_of_several_runs(invoke: Invoke, files: tuple[object, ...]) -> None:
    several = (*files, "--run", f"copy={files[2]}", "--metrics", "mrr@10", "--per-query")
    rows = json.loads(invoke(*several, "--format", "json").stdout)
    assert [(row["run"], row["query_id"], row["mrr@10"]) for row in rows] == [
        (name, query_id, value)
        for name in (rows[0]["run"], "copy")
        for query_id, value in (("q1", 0.5), ("q2", 0.0), ("q3", None))
    ]


def test_trec_mean_of_each_query_is_what_the_mean_counts(
    invoke: Invoke, files: tuple[object, ...]
) -> None:
    asked = (*files, "--metrics", "mrr@10", "--trec-mean", "--per-query", "--format", "csv")
    assert invoke(*asked).stdout == "query_id,mrr@10\nq1,0.5\nq2,0.0\nq3,0.0\n"


def test_a_mean_over_nothing_is_empty(invoke: Invoke, files: tuple[object, ...]) -> None:
    Path(str(files[4])).write_text("q1 0 d1 0\n", encoding="utf-8")
    base = (*files, "--metrics", "mrr@10,P@2")
    assert invoke(*base).stdout == "mrr@10  -\nP@2     -\n"
    assert json.loads(invoke(*base, "--format", "json").stdout) == {"mrr@10": None, "P@2": None}


def test_an_echoed_name_has_the_parameters_that_tools_differ_in(
    invoke: Invoke, files: tuple[object, ...]
) -> None:
    names = "rbp,RBP@5,rbp(rel=2),RBP(p=0.9)@3,ERR@2,P@2"
    asked = (*files, "--metrics", names, "--format")
    shown = ["rbp(p=0.8)", "rbp(p=0.8)@5", "rbp(p=0.8,rel=2)", "RBP(p=0.9)@3"]
    shown += ["err(gmax=4)@2", "P@2"]
    assert list(json.loads(invoke(*asked, "json").stdout)) == shown
    rows = json.loads(invoke(*asked, "json", "--per-query").stdout)
    assert list(rows[0]) == ["query_id", *shown]


@pytest.mark.parametrize("option", ["--qrels", "--metrics", "--format"])
def test_an_option_of_one_value_is_given_once(
    invoke: Invoke, files: tuple[object, ...], option: str
) -> None:
    given = (*files, "--metrics", "mrr", "--format", "json")
    result = invoke(*given, option, given[given.index(option) + 1])
    told = f"error: {option} is given 2 times; it takes one value\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", told)


def test_csv_of_the_means(invoke: Invoke, files: tuple[object, ...]) -> None:
    assert invoke(*files, "--metrics", "mrr@10", "--format", "csv").stdout == "mrr@10\n0.25\n"


def test_compressed_run_and_beir_qrels(invoke: Invoke, tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.gz", tmp_path / "test.tsv"
    run.write_bytes(gzip.compress(RUN.encode()))
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n", encoding="utf-8")
    result = invoke(
        "score", "--run", run, "--qrels", qrels, "--metrics", "mrr@1", "--format", "json"
    )
    assert json.loads(result.stdout) == {"mrr@1": 1.0}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ("kappa", "unknown metric 'kappa'; allowed: "),
        ("precision", "metric 'precision' needs a cut-off, such as precision@10"),
        (" , ", "--metrics names no metric"),
    ],
)
def test_wrong_metrics(
    invoke: Invoke, files: tuple[object, ...], metrics: str, expected: str
) -> None:
    result = invoke(*files, "--metrics", metrics)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {expected}")
    assert result.stderr.count("\n") == 1


def test_a_bad_line_in_a_process(run_process: RunProcess, tmp_path: Path) -> None:
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    run.write_text(RUN + "q1 d4 1.0\n", encoding="utf-8")
    qrels.write_text(QRELS, encoding="utf-8")
    done = run_process("score", "--run", run, "--qrels", qrels)
    assert (done.returncode, done.stdout) == (1, "")
    problem = "has 3 fields; a run line is 'query Q0 document rank score tag', of MS MARCO "
    problem += "'query document rank'"
    assert done.stderr == f"error: {run}:5: {problem}\n"


def test_a_file_that_is_not_there(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("score", "--run", tmp_path / "no.trec", "--qrels", tmp_path / "no.txt")
    assert result.exit_code == 1
    file = tmp_path / "no.trec"
    assert result.stderr == f"error: {file}: cannot be read: No such file or directory\n"


TIED = "q1 Q0 b 1 2.0 t\nq1 Q0 a 2 2.0 t\nq1 Q0 x 3 1.0 t\nq2 Q0 a 1 1.0 t\n"


def test_ties(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "run").write_text(TIED, encoding="utf-8")
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 a 1\n", encoding="utf-8")
    base = ("score", "--run", tmp_path / "run", "--qrels", tmp_path / "qrels", "--metrics")
    result = invoke(*base, "RR@1,map,P_2", "--ties", "--format", "json")
    assert json.loads(result.stdout) == [
        {"metric": "RR@1", "worst": 0.5, "value": 0.5, "best": 1.0, "n_queries_that_differ": 1},
        {"metric": "P_2", "worst": 0.5, "value": 0.5, "best": 0.5, "n_queries_that_differ": 0},
    ]
    said = " ".join(result.stderr.split())
    assert said == (
        "2 queries averaged; queries with ties across the cut-off: 1 at 1 (see --ties) note: no "
        "bounds over ties for map; there are some for hit_rate, mrr, ndcg, recall, precision"
    )
    assert invoke(*base, "RR@1", "--ties").stdout.splitlines()[1].split() == (
        ["RR@1", "0.5000", "0.5000", "1.0000", "1"]
    )
    refused = invoke(*base, "RR@1", "--ties", "--per-query")
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("qrels", "problem"),
    [
        ("1 0 a 1\n", "no query of the run is in the qrels: the run has 'q1', they have '1'"),
        (
            "q1 0 a.md 1\n",
            "no document of the run is in the qrels: the run has 'a', they have 'a.md'",
        ),
        ("q1 0 a 1\n9 0 a.md 1\n", None),
    ],
)
def test_ids_that_cannot_match_are_named(
    invoke: Invoke, tmp_path: Path, qrels: str, problem: str | None
) -> None:
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\n", encoding="utf-8")
    (tmp_path / "qrels").write_text(qrels, encoding="utf-8")
    base = ("score", "--qrels", tmp_path / "qrels", "--metrics", "mrr", "--run")
    for result, name in (
        (invoke(*base, tmp_path / "run"), ""),
        (invoke(*base, f"A={tmp_path / 'run'}", "--run", f"B={tmp_path / 'run'}"), "A: "),
    ):
        assert result.exit_code == 0
        notes = [line for line in result.stderr.splitlines() if "of the run is in" in line]
        assert notes[:1] == ([] if problem is None else [f"note: {name}{problem}"])


def test_parameters_with_commas(invoke: Invoke, files: tuple[object, ...]) -> None:
    result = invoke(*files, "--metrics", "RBP(p=0.5,rel=1)@2,Judged@2", "--format", "json")
    assert json.loads(result.stdout) == {"RBP(p=0.5,rel=1)@2": 0.125, "Judged@2": 0.5}
