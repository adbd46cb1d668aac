"""``rag-assets score``, as trec_eval and as other tools count; ``export-run`` and ``convert``."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from math import log2
from pathlib import Path

import pytest
from click.testing import Result

from rag_assets.evaluation.dialects import DIALECTS
from tests.cli.conftest import Invoke, parsed

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
    values = {"mrr@10": 1 / 4, "P@2": 1 / 4, "nDCG": NDCG / 2, "recall_100": 1 / 2}
    result = invoke(*files, "--metrics", ",".join(values), "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == pytest.approx(values)
    assert " ".join(result.stderr.split()) == (
        "2 queries averaged; 1 without a relevant document; 1 missing from the run (count 0); "
        "1 of the run not in the qrels (not scored)"
    )
    result = invoke(*files, "--metrics", "mrr@10", "--trec-mean", "--format", "json")
    assert json.loads(result.stdout) == pytest.approx({"mrr@10": 1 / 6})
    assert result.stderr.startswith("3 queries averaged")


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
    assert invoke(*base, "table").stdout.splitlines()[-1] == "q3             -"
    Path(str(files[4])).write_text("q1 0 d1 0\n", encoding="utf-8")
    base = (*files, "--metrics", "mrr@10,P@2")
    assert invoke(*base).stdout == "mrr@10  -\nP@2     -\n"
    assert json.loads(invoke(*base, "--format", "json").stdout) == {"mrr@10": None, "P@2": None}


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
    result = invoke(*base, tmp_path / "run")
    assert result.exit_code == 0
    notes = [line for line in result.stderr.splitlines() if "of the run is in" in line]
    assert notes == ([] if problem is None else [f"note: {problem}"])


def test_latex(invoke: Invoke, files: tuple[object, ...]) -> None:
    text = invoke(*files, "--metrics", "mrr@10,P@2", "--format", "latex").stdout
    assert "metric & mean \\\\\n\\midrule\nmrr@10 & 0.2500 \\\\\n" in text


PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
DIALECT_RUN = "q1 Q0 a 1 3.0 t\nq1 Q0 x 2 2.0 t\nq2 Q0 x 1 1.0 t\nq9 Q0 a 1 1.0 t\n"
DIALECT_QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 a 1\n"
"""q1: one of two; q2: nothing found; q3 is missing from the run."""


@pytest.fixture
def dialect_files(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "run.trec").write_text(DIALECT_RUN, encoding="utf-8")
    (tmp_path / "qrels.txt").write_text(DIALECT_QRELS, encoding="utf-8")
    return ("score", "--run", tmp_path / "run.trec", "--qrels", tmp_path / "qrels.txt")


def test_a_tools_numbers_under_its_own_names(
    invoke: Invoke, dialect_files: tuple[object, ...]
) -> None:
    result = invoke(*dialect_files, "--dialect", "autorag", "--format", "json")
    assert result.exit_code == 0
    # Of q1: recall 1/2, precision 1/2, its groups' first documents at 1 and nowhere; q2: all 0.
    ndcg = 1 / (1 + 1 / log2(3))
    values = {"f1": 0.5, "recall": 0.5, "precision": 0.5, "ndcg": ndcg, "mrr": 0.5, "map": 0.5}
    assert json.loads(result.stdout) == pytest.approx(
        {f"retrieval_{name}": value / 2 for name, value in values.items()}
    )
    say = "as AutoRAG 0.3.27; 2 of 3 queries have a value; 1 of the run not in the qrels"
    assert " ".join(result.stderr.split()) == say


def test_metrics_of_other_queries_are_counted_apart(
    invoke: Invoke, dialect_files: tuple[object, ...]
) -> None:
    said = invoke(*dialect_files, "--dialect", "beir", "--metrics", "P@10,MRR@10").stderr
    # Of q3, which the run lacks, BEIR's MRR is 0, and it has no other value.
    assert "; queries with a value, of 3: 2 in P@10, 3 in MRR@10" in " ".join(said.split())


def test_every_dialect_prints_its_default_metrics(
    invoke: Invoke, dialect_files: tuple[object, ...]
) -> None:
    for name, dialect in DIALECTS.items():
        result = invoke(*dialect_files, "--dialect", name)
        assert result.exit_code == 0
        assert [line.split()[0] for line in result.stdout.splitlines()] == [*dialect.defaults]


def test_ragas_comes_with_a_warning(invoke: Invoke, dialect_files: tuple[object, ...]) -> None:
    asked = ("--metrics", "llm_context_precision_without_reference", "--format", "json")
    result = invoke(*dialect_files, "--dialect", "ragas", *asked)
    # q1 scores 1, q2 scores 0, and q3 is no row of its data.
    assert json.loads(result.stdout) == pytest.approx({asked[1]: 0.5})
    said = " ".join(result.stderr.split())
    assert "divides by what is relevant among the retrieved" in said
    assert "Without a reference the answer is taken for the truth" in said


def test_a_number_that_the_tool_does_not_give(
    invoke: Invoke, dialect_files: tuple[object, ...]
) -> None:
    result = invoke(*dialect_files, "--dialect", "beir", "--metrics", "NDCG@5,MRR@5,Hole@2")
    assert result.exit_code == 0
    assert re.fullmatch(r"NDCG@5  0\.\d{4}\nMRR@5   -\nHole@2  0\.3333\n", result.stdout)
    problem = "query 'q9' is in the run but not in the qrels, BEIR raises KeyError"
    assert f"MRR@5 has no value: {problem}" in result.stderr
    asked = ("--dialect", "llamaindex", "--metrics", "recall", "--format", "json")
    result = invoke(*dialect_files, *asked)
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
    what = "'a' occurs twice for query 'q00', first on line 1; a unit can be retrieved only once"
    assert refused.stderr.startswith(f"error: {run}:1: `retrieved_ids`: {what}")
    result = invoke(*base, "--dialect", "autorag", "--metrics", "retrieval_precision")
    assert result.stdout == "retrieval_precision  0.2500\n"
    lines = result.stderr.splitlines()
    assert lines[0] == "query 'q00': document 'a' occurs 3 times"
    assert lines[20] == "... and 2 more repeated documents"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--metrics", "kappa"), "unknown metric 'kappa'; allowed: "),
        (("--metrics", " , "), "--metrics names no metric"),
        (("--dialect", "trec"), "Invalid value for '--dialect'"),
        (
            ("--dialect", "autorag", "--metrics", "ndcg@10"),
            "dialect autorag: unknown metric 'ndcg@10'",
        ),
        (("--dialect", "beir", "--metrics", "NDCG"), "'NDCG' needs a cut-off: NDCG@10"),
        (("--dialect", "autorag", "--metrics", "retrieval_f1@0"), "must be at least 1"),
        (("--dialect", "ragas", "--metrics", ","), "--metrics names no metric"),
        (("--dialect", "ragas", "--trec-mean"), "--trec-mean does not apply to --dialect"),
        (
            ("--dialect", "ragas", "--na-prob-file", "na.json"),
            "--na-prob-file is for --dialect squad_v2_official",
        ),
    ],
)
def test_wrong_options(
    invoke: Invoke, dialect_files: tuple[object, ...], options: tuple[str, ...], expected: str
) -> None:
    result = invoke(*dialect_files, *options)
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
    dialect_files = ("--run", tmp_path / "answers.json", "--qrels", tmp_path / "dev.json")
    return ("score", *dialect_files, "--dialect", "squad_v2_official")


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
    unknown = invoke(*answers, "--metrics", "exact_match")
    assert unknown.exit_code == 2
    problem = "dialect squad_v2_official: unknown metric 'exact_match'"
    assert problem in " ".join(unknown.stderr.split())
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


def test_a_run_goes_out_and_comes_back(invoke: Invoke, again: tuple[Path, Path]) -> None:
    """Each layout, as a retriever and as the run that is scored."""
    folder, store = again
    retrievers = {"bm25": {"type": "bm25", "analyzer": "english"}}
    scored = []
    for name in ("run.trec", "run.jsonl.gz", "run.parquet"):
        out = folder / name
        done = invoke("export-run", folder, "--retriever", "bm25", "--out", out, "--store", store)
        assert done.exit_code == 0, done.output
        assert done.stdout.endswith(" rows, top_k 10\n")
        retrievers[out.suffix[1:]] = {"type": "run_file", "path": name}
        for dialect in ((), ("--dialect", "llamaindex")):
            run = ("--run", out, "--qrels", folder / "qrels" / "test.tsv")
            scored.append(invoke("score", *run, *dialect).stdout)
    assert scored[:2] == scored[2:4] == scored[4:]
    assert "" not in scored
    yaml = json.dumps({"retrievers": retrievers, "top_k": [1, 3, 10]})
    (folder / "experiment.yaml").write_text(yaml, encoding="utf-8")
    assert invoke("evaluate", folder, "--store", store).exit_code == 0
    rows = parsed(invoke("leaderboard", folder, "--store", store, "--format", "json"))
    found: dict[str, list[float]] = {name: [] for name in retrievers}
    for row in rows:
        found[row["retriever"]].append(row["ndcg"])
    assert len(found["bm25"]) == 3
    assert found == dict.fromkeys(retrievers, found["bm25"])


def test_what_is_not_there(invoke: Invoke, evaluated: tuple[Path, Path], tmp_path: Path) -> None:
    folder, store = evaluated
    out = tmp_path / "run.trec"

    def export(*words: object) -> Result:
        return invoke("export-run", folder, "--store", store, "--out", out, *words)

    refused = export("--retriever", "bm26")
    assert refused.exit_code == 2
    assert "unknown retriever 'bm26' (did you mean 'bm25'?)" in refused.stderr
    refused = export("--retriever", "bm25", "--top-k", 7)
    assert refused.exit_code == 2
    assert "--top-k 7: bm25 has runs at 1, 3, 10" in refused.stderr
    assert not out.exists()
    assert export("--retriever", "bm25", "--top-k", 1).exit_code == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize("form", ["jsonl", "beir", "trec", "llamaindex"])
def test_what_has_no_labels_is_converted(
    invoke: Invoke, tiny: Path, tmp_path: Path, form: str
) -> None:
    shutil.rmtree(tiny / "qrels")
    result = invoke("convert", tiny, "--to", form, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("written from documents 4, queries 4, qrels 0\n")
    assert any((tmp_path / "out").iterdir())


def test_refusals_of_convert(invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
    convert = ("convert", tiny, "--to", "jsonl", "--out")
    assert invoke(*convert, tmp_path / "out").exit_code == 0
    again = invoke(*convert, tmp_path / "out")
    problem = f"error: {tmp_path / 'out'}: already exists; choose a new folder\n"
    assert (again.exit_code, again.stderr) == (2, problem)
    assert invoke("convert", tiny, "--to", "squad", "--out", tmp_path / "new").exit_code == 2
    (tiny / "queries.jsonl").write_text("{", encoding="utf-8")
    assert invoke(*convert, tmp_path / "new").exit_code == 1
    assert not (tmp_path / "new").exists()
