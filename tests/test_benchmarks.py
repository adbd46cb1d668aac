"""The experiments and scripts of benchmarks/ that need no data set."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.api import evaluate
from rag_assets.experiment import ExperimentConfig
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.sources.json_datasets import SquadDataset
from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[1]
BENCHMARKS = REPOSITORY / "benchmarks"
EXPERIMENTS = sorted((BENCHMARKS / "experiments").glob("*.yaml"))

Run = Callable[..., None]


@pytest.fixture(autouse=True)
def its_modules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def names_of(script: str) -> dict[str, Any]:
    """Return what a script defines."""
    return runpy.run_path(str(BENCHMARKS / script))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(script: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")

    return run


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_experiment_is_valid(file: Path) -> None:
    config = ExperimentConfig.model_validate(read_yaml(file).data)
    assert config.name == file.stem
    ours = ("..", "..", "data", "handbook")
    assert config.dataset.path.parts[:4] in {("..", "..", "build", "benchmarks"), ours}


def test_the_results_name_every_experiment() -> None:
    page = (REPOSITORY / "docs" / "results.md").read_text(encoding="utf-8")
    named = set(re.findall(r"benchmarks/experiments/(\w+)\.yaml", page))
    assert named == {file.stem for file in EXPERIMENTS}


def squad(path: Path) -> Path:
    def question(number: int) -> dict[str, object]:
        answers = [{"text": "six", "answer_start": 0}] if number % 3 else []
        return {"id": f"q{number}", "question": "when?", "answers": answers}

    paragraphs = [
        {"context": f"six {n}", "qas": [question(4 * n + i) for i in range(4)]} for n in range(3)
    ]
    data = {"version": "", "data": [{"title": "t", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_sample_keeps_every_paragraph_and_is_the_same_again(run: Run, tmp_path: Path) -> None:
    source = squad(tmp_path / "all.json")
    for name in ("a.json", "b.json"):
        run("squad_subset.py", source, tmp_path / name, "--questions", 5, "--seed", 3)
    run("squad_subset.py", source, tmp_path / "c.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    for name, n_questions in (("a.json", 5), ("c.json", 8)):
        dataset = SquadDataset.open(tmp_path / name)
        assert dataset.read_documents().table.num_rows == 3
        ids = dataset.read_queries().table.column("query_id").to_pylist()
        assert len(ids) == n_questions
        assert not {"q0", "q3", "q6", "q9"} & set(ids), "these have no answer"


def test_the_span_reader_is_measured_on_squad_files(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = squad(tmp_path / "all.json")
    run("answers_squad.py", "--train", file, "--dev", file, "--questions", 8)
    rows = {line[:22].strip(): line[22:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows["gold"][:4] == ["EM", "100.0", "F1", "100.0"]
    assert rows["top 1"][:2] == ["EM", "0.0"], "BM25 finds nothing: no paragraph has 'when'"
    assert rows["gold - top 1"][:4] == ["EM", "+100.0", "[+100.0,", "+100.0]"]


def test_predictions_of_the_span_reader_are_read_as_answers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_sets.REPOSITORY", tmp_path)
    squad(tmp_path / "all.json")
    (tmp_path / "experiment.yaml").write_text(
        "dataset: {path: all.json, format: squad, judge: document}\n"
        "chunking: {whole: {strategy: none}}\n"
        "retrievers: {bm25: {type: bm25, chunking: whole}}\n"
        "generators: {spans: {type: file, path: spans/gold.json}, copies: {type: extractive}}\n"
        "answers:\n"
        "  gold: {generator: spans, context: gold, chunking: whole}\n"
        "  copied: {generator: copies, context: gold, chunking: whole}\n"
        "top_k: [1]\n",
        encoding="utf-8",
    )
    run("span_predictions.py", tmp_path / "experiment.yaml", "--train", tmp_path / "all.json")
    result = evaluate(tmp_path / "experiment.yaml", tmp_path / "store")
    means = {
        (row["answerer"], row["questions"]): row["mean"]
        for row in result.answer_summary.to_pylist()
        if row["metric"] == "answer_em"
    }
    assert means["gold", "answerable"] == 1.0 > means["copied", "answerable"]


def test_variants_by_rules() -> None:
    variants = names_of("rule_variants.py")["variants"]
    assert variants("In what year did Robert Crispin go against the Turks?") == [
        "year Robert Crispin go against Turks",
        "Robert Crispin Turks",
        "year Robert Crispin",
        "go against Turks",
    ]
    assert variants("what is an oxide?") == ["oxide"]
    assert variants("who is it?") == []


def test_all_pairs_of_answerers_are_printed(
    run: Run, tmp_path: Path, computed_answers: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = computed_answers.copy_to(tmp_path / "tiny")
    tiny.snapshot()
    place = ("--store", tiny.settings.store)
    run("answer_differences.py", tiny.folder, *place, "--metrics", "answer_f1")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "answer_f1"
    means, pairs = (
        [line for line in lines if ("->" in line) == paired and line.startswith("  ")]
        for paired in (False, True)
    )
    n = len(tiny.pipeline().experiment.answer_cells)
    assert (len(means), len(pairs)) == (n, n * (n - 1) // 2)
    assert means[0].split()[:3] == ["official@-", "all", "0.5746"]
    assert pairs[0].split()[:3] == ["official@-", "->", "read@3"]
    assert "+0.0000" in pairs[0]


def test_published_ranks_come_back(run: Run, tmp_path: Path) -> None:
    data = {
        "queries": {"a": "?", "b": "?", "c": "?"},
        "corpus": {f"n{i}": "text" for i in range(5)},
        "relevant_docs": {"a": ["n0"], "b": ["n1"], "c": ["n4"]},
    }
    (tmp_path / "data.json").write_text(json.dumps(data), encoding="utf-8")
    table = "query_id,x_hit_rate,x_mrr\na,1,1\nb,1,0.3333333333\nc,0,0\n"
    (tmp_path / "table.csv").write_text(table, encoding="utf-8")
    run("published_ranks.py", tmp_path / "table.csv", tmp_path / "data.json", tmp_path)
    rows = [line.split() for line in (tmp_path / "published_x.txt").read_text().splitlines()]
    ranks = {(row[0], row[2]): int(row[3]) for row in rows}
    assert (ranks["a", "n0"], ranks["b", "n1"]) == (1, 3)
    assert ("c", "n4") not in ranks
    assert len(rows) == 1 + 3 + 3


def test_four_bit_blocks() -> None:
    """A block of scale 0.5: the low halves of the bytes first, then the high ones, minus 8."""
    script = names_of("dequantise_e5.py")
    quants = bytes((i % 16) | ((15 - i % 16) << 4) for i in range(16))
    data = np.float16(0.5).tobytes() + quants
    found = script["weights"](data, 0, (2, 16), quantised=True)
    assert found[0].tolist() == [(i - 8) / 2 for i in range(16)]
    assert found[1].tolist() == [(7 - i) / 2 for i in range(16)]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_one_command_runs_the_benchmarks() -> None:
    names = names_of("bench.py")["BENCHMARKS"]
    assert all((BENCHMARKS / f"{name}.py").is_file() for name in names)
    done = bench("--quick", "--only", "metrics")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "== metrics: done" in done.stdout
    file = REPOSITORY / "build" / "benchmarks" / "metrics.quick.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [row[-1] for row in found["tables"][0]["rows"]] == [0, 0], "pytrec_eval's means are ours"


def test_without_data_a_benchmark_is_skipped(tmp_path: Path) -> None:
    done = bench("--quick", "--only", "embedding", "--data", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "== embedding: skipped: no data 'squad'" in done.stdout


def test_the_grid_reads_what_it_wrote(tmp_path: Path) -> None:
    made = names_of("grid_input.py")
    given = made["squad"](squad(tmp_path / "squad.json"))
    assert len(given.documents) == 3
    assert not {"q0", "q3"} & set(given.queries), "these have no answer"
    drawn = made["sample"](given, 5)
    assert drawn == made["sample"](given, 5)
    assert set(drawn.queries) == set(drawn.qrels) < set(given.queries)
    made["write"](tmp_path / "beir", drawn)
    assert made["read"](tmp_path / "beir") == drawn


def test_made_texts_have_words_by_zipfs_law_and_are_the_same_again(tmp_path: Path) -> None:
    made = names_of("zipf_corpus.py")
    for exponent in (1, 1.1):
        words = made["ZipfWords"](np.array([f"w{n}" for n in range(1000)], dtype=object), exponent)
        drawn = words.draw(np.random.default_rng(0), 200_000)
        counts = np.bincount(drawn, minlength=1000)
        assert len(counts) == 1000
        edges = np.arange(1, 1002, dtype=float)
        area = np.log(edges) if exponent == 1 else 1 - edges ** (1 - exponent)
        expected = np.diff(area) / area[-1] * len(drawn)
        assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()
    assert words.text(np.array([2, 0])) == "w2 w0"
    files = ("documents.jsonl", "queries.jsonl", "judgments.jsonl")
    for name in ("a", "b"):
        corpus = made["write_corpus"](tmp_path / name, 20, 30, np.random.default_rng(3))
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    rows = [
        [json.loads(line) for line in (tmp_path / "a" / file).read_text().splitlines()]
        for file in files
    ]
    assert [len(part) for part in rows] == [20, 30, 30]
    texts = {row["id"]: row["text"].strip(".").split() for row in rows[0]}
    for query, label, target in zip(rows[1], rows[2], corpus.targets, strict=True):
        assert label == {"query_id": query["query_id"], "doc_id": corpus.ids[target]}
        assert set(query["text"].split()) <= set(texts[label["doc_id"]])


def test_a_result_is_on_the_page_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, page = import_module("result"), import_module("page")
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(result, "RESULTS", tmp_path)
    found = result.Result("metrics", "Metrics of today", "python benchmarks/metrics.py")
    found.write()
    assert "## Metrics of today" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    found.write(tmp_path / "build" / "part.json")
    assert not (tmp_path / "part.json").exists()


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    limits = [
        {"what": "slow", "value": 2.0, "aim": 1.3, "unit": "x", "at_least": False},
        {"what": "fast", "value": 21.0, "aim": 20, "unit": "x", "at_least": True},
    ]
    found = json.loads((BENCHMARKS / "results" / "embedding.json").read_text(encoding="utf-8"))
    (tmp_path / "a.json").write_text(json.dumps({**found, "limits": limits}), encoding="utf-8")
    page = names_of("page.py")["page"](tmp_path)
    assert "| slow | 2 x | at most 1.3 x | **missed** |" in page
    assert "| fast | 21 x | at least 20 x | kept |" in page


@pytest.mark.parametrize(
    ("seconds", "exponent"),
    [
        (lambda size: 3 + 0.01 * size, 1),  # of what grows
        (lambda size: 3 + 0.01 * size**2, 2),
        (lambda size: 2 + 0.1 * (size == 10), 0),  # it is flat: of all of it
    ],
)
def test_the_exponent_of_a_curve(seconds: Callable[[int], float], exponent: int) -> None:
    script, sizes = names_of("cost_curves.py"), [1, 10, 100, 1000]
    curve = script["Curve"]("documents", sizes)
    for size in sizes:
        curve.add("cold", script["Cost"](seconds(size), seconds(size), 10**8))
    assert curve.exponent("cold") == pytest.approx(exponent, abs=0.05)
