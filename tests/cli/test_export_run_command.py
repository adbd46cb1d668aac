from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.beir_folder import write_beir

Invoke = Callable[..., Result]
BM25 = "bm25: {type: bm25, analyzer: english}"


@pytest.mark.parametrize("name", ["run.trec", "run.jsonl", "run.parquet"])
def test_a_run_goes_out_and_comes_back(invoke: Invoke, tmp_path: Path, name: str) -> None:
    files = {"experiment.yaml": f"retrievers: {{{BM25}}}\ntop_k: [1, 3]\n"}
    folder, store = write_beir(tmp_path / "tiny", files), tmp_path / "store"
    assert invoke("evaluate", folder, "--store", store).exit_code == 0
    out = folder / name
    done = invoke("export-run", folder, "--retriever", "bm25", "--out", out, "--store", store)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(" rows, top_k 3\n")
    both = f"{BM25}, file: {{type: run_file, path: {name}}}"
    yaml = f"retrievers: {{{both}}}\ntop_k: [1, 3]\n"
    (folder / "experiment.yaml").write_text(yaml, encoding="utf-8")
    assert invoke("evaluate", folder, "--store", store).exit_code == 0
    shown = invoke("leaderboard", folder, "--store", store, "--format", "csv")
    rows = [line.split(",") for line in shown.stdout.splitlines()]
    at = rows[0].index("ndcg")
    by_name = {name: [row[at] for row in rows if name in row] for name in ("bm25", "file")}
    assert by_name["bm25"] == by_name["file"] != []


@pytest.mark.parametrize("words", [(), ("--dialect", "beir")])
def test_score_reads_what_was_written(
    invoke: Invoke, evaluated: tuple[Path, Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder, store = evaluated
    qrels = folder / "qrels" / "test.tsv"
    scored = []
    for name in ("run.trec", "run.jsonl.gz", "run.parquet"):
        out = tmp_path / name
        where = ("--retriever", "bm25", "--out", out, "--store", store)
        assert invoke("export-run", folder, *where).exit_code == 0
        done = invoke("score", "--run", out, "--qrels", qrels, *words)
        assert done.exit_code == 0, done.output
        scored.append(done.stdout)
    assert scored[0] == scored[1] == scored[2] != ""


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
