"""Several runs in ``score``, and display names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import rag_assets
from tests.tiny_experiment import Tiny

Invoke = Callable[..., Result]

QRELS = "".join(f"q{number} 0 d{number}_0 1\n" for number in range(40))


def trec(place_of: Callable[[int], int]) -> str:
    """Return a run of which the relevant document of each query has the place given."""
    lines = []
    for number in range(40):
        others = [f"x{number}_{one}" for one in range(4)]
        others.insert(place_of(number), f"d{number}_0")
        lines += [f"q{number} Q0 {name} {r} {9 - r} t" for r, name in enumerate(others)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "good.trec").write_text(trec(lambda number: 0))
    (folder / "bad.trec").write_text(trec(lambda number: 1 + number % 3))
    (folder / "a=b.trec").write_text(trec(lambda number: number % 2))
    return folder


@pytest.fixture(scope="module")
def score(invoke: Invoke, folder: Path) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        return invoke("score", "--qrels", folder / "qrels.txt", "--metrics", "mrr@5", *arguments)

    return run


def two(folder: Path) -> list[object]:
    return ["--run", f"BM25+RM3={folder / 'good.trec'}", "--run", folder / "bad.trec"]


def test_two_runs_as_json(score: Invoke, folder: Path) -> None:
    result = score(*two(folder), "--format", "json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    bad = sum(1 / (2 + number % 3) for number in range(40)) / 40
    assert [(row["run"], row["mean"]) for row in shown["means"]] == [
        ("BM25+RM3", 1.0),
        ("bad", pytest.approx(bad)),
    ]
    (pair,) = shown["pairs"]
    assert (pair["run_a"], pair["run_b"], pair["lost"]) == ("BM25+RM3", "bad", 40)
    assert pair["difference"] == pytest.approx(bad - 1)
    assert 0 < pair["p_adjusted"] < 0.001
    assert result.stderr == "40 queries averaged\n"


def test_two_runs_in_the_other_forms(score: Invoke, folder: Path) -> None:
    table = score(*two(folder)).stdout
    assert table.startswith("mrr@5, 40 queries\nrun        mrr@5")
    assert "bad - BM25+RM3" in table
    csv = score(*two(folder), "--format", "csv")
    assert csv.stdout.splitlines()[0] == "run,metric,n,mean,low,high"
    assert "note: one CSV is one table, that of the means" in csv.stderr
    markdown = score(*two(folder), "--format", "markdown").stdout.splitlines()
    head, row = ([cell.strip() for cell in markdown[n].split("|")] for n in (5, 7))
    p_values = [value for name, value in zip(head, row, strict=True) if name.startswith("p")]
    assert len(p_values) == 4
    assert "0.0000" not in p_values


def test_runs_and_pairs_of_queries_that_share_documents_say_so(
    invoke: Invoke, score: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    """Every query has the same document, so nothing tells of queries about others."""
    (tmp_path / "qrels.txt").write_text(
        "".join(f"q{n} 0 x0_0 1\nq{n} 0 d{n}_0 1\n" for n in range(40))
    )
    where = ("--qrels", tmp_path / "qrels.txt", "--metrics", "mrr@5")
    notes = invoke("score", *where, *two(folder)).stderr
    assert "all 40 questions share documents, so this says nothing of questions about" in notes
    assert "share documents" not in score(*two(folder)).stderr


def test_names_of_runs(score: Invoke, folder: Path) -> None:
    same = score("--run", folder / "a=b.trec", "--run", folder / "good.trec", "--format", "json")
    assert {row["run"] for row in json.loads(same.stdout)["means"]} == {"a=b", "good"}
    refusals: list[tuple[list[object], str]] = [
        ([folder / "bad.trec"] * 2, "two runs are called 'bad'; name them: --run NAME=FILE"),
        ([f"={folder / 'bad.trec'}", folder / "good.trec"], "--run takes FILE or NAME=FILE"),
    ]
    for given, problem in refusals:
        refused = score(*(part for one in given for part in ("--run", one)))
        assert refused.exit_code == 2
        assert problem in " ".join(refused.stderr.split())


@pytest.mark.parametrize("flag", ["--trec-mean", "--ties"])
def test_what_is_of_one_run_is_refused_for_two(score: Invoke, folder: Path, flag: str) -> None:
    refused = score(*two(folder), flag)
    assert refused.exit_code == 2
    assert f"{flag} is of one run; give one --run" in " ".join(refused.stderr.split())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("names")).start_from(computed)
    tiny.config["display_names"] = {"bm25": "BM25+RM3", "okapi": "sys_A"}
    tiny.write()
    tiny.run()
    tiny.snapshot()
    return tiny


def test_people_read_display_names_and_programs_the_others(invoke: Invoke, tiny: Tiny) -> None:
    where = (tiny.folder, "--store", tiny.root / "store")
    board = invoke("leaderboard", *where).stdout
    assert "BM25+RM3" in board
    assert "sys_A" in board
    assert "okapi" not in board
    assert "| BM25+RM3 |" in invoke("leaderboard", *where, "--format", "markdown").stdout
    rows = json.loads(invoke("leaderboard", *where, "--format", "json").stdout)
    assert {row["retriever"] for row in rows} >= {"bm25", "okapi"}, "programs read the own names"
    assert "sys_A - BM25+RM3" in invoke("compare", *where).stdout
    pair = invoke("compare", *where, "bm25", "okapi")
    assert "BM25+RM3" in pair.stdout
    assert "okapi" not in pair.stdout
    for command in (("compare", *where, "BM25+RM3", "okapi"), ("ask", *where, "a question")):
        given = [] if command[0] == "compare" else ["--retriever", "BM25+RM3"]
        refused = invoke(*command, *given)
        assert refused.exit_code == 2
        assert "'BM25+RM3' is how bm25 is shown; its name is bm25" in refused.stderr
    table = rag_assets.leaderboard(tiny.folder, tiny.root / "store")
    assert "BM25+RM3" in repr(table)
    assert "okapi" not in repr(table)
    assert "okapi" in table.to_arrow()["retriever"].to_pylist(), "programs read the own names"
    page = Path(invoke("report", *where).stdout.strip()).read_text(encoding="utf-8")
    assert page.count("BM25+RM3") > 10
    assert not re.search(r">\s*okapi\b", page)


def test_a_display_name_computes_nothing_anew(tiny: Tiny) -> None:
    names = tiny.config["display_names"]
    for shown in ({"bm25": "another"}, names):  # other tests read the names of before
        tiny.config["display_names"] = shown
        tiny.write()
        assert not tiny.run()


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"bm52": "x"}, "unknown retriever 'bm52'"),
        ({"bm25": "okapi"}, "'okapi' is the name of another retriever too"),
        ({"bm25": ""}, "display_names.bm25"),
    ],
)
def test_display_names_that_cannot_be(
    invoke: Invoke, tmp_path: Path, names: dict[str, str], problem: str
) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["display_names"] = names
    tiny.write()
    refused = invoke("plan", tiny.folder, "--store", tmp_path / "store")
    assert refused.exit_code == 2
    assert problem in " ".join(refused.stderr.split())
