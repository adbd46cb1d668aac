"""``rag-assets plan``; what a plan is, is tested in tests/pipeline/test_plan.py."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag_assets.pipeline.evaluations import read_evaluation, snapshot_text
from tests.cli.conftest import Invoke


def rows(invoke: Invoke, *arguments: object) -> list[dict[str, Any]]:
    result = invoke("plan", *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_nothing_is_evaluated(invoke: Invoke, tiny: Path, store: Path) -> None:
    result = invoke("plan", tiny, "--store", store)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["asset", "partitions", "why"]
    assert lines[1].split() == ["documents", "1", "compute", "nothing", "stored", "yet"]
    assert "retrievers: 1: bm25" in lines
    assert not (store / "objects").exists()
    found = rows(invoke, tiny, "--store", store)
    assert {row["action"] for row in found} == {"compute"}
    assert found[0] == {
        "asset": "documents",
        "partition": {},
        "action": "compute",
        "reasons": [{"what": "nothing stored yet", "old": None, "new": None}],
    }


def test_after_an_evaluation(invoke: Invoke, evaluated: tuple[Path, Path], tmp_path: Path) -> None:
    folder, store = evaluated
    found = rows(invoke, folder, "--store", store)
    assert {(row["action"], len(row["reasons"])) for row in found} == {("reuse", 0)}
    # A copy with the evaluation of the original; the store's list of experiments stays behind.
    copied = shutil.copytree(store, tmp_path / "store")
    (copied / "experiments.json").unlink()
    other = shutil.copytree(folder, tmp_path / folder.name) / "experiment.yaml"
    for file in (copied / folder.name / "evaluations").glob("*.json"):
        moved = replace(read_evaluation(file), source=str(other))
        file.write_text(snapshot_text(moved), encoding="utf-8")
    store = copied
    text = other.read_text(encoding="utf-8")
    other.write_text(text.replace("type: bm25", "type: bm25, k1: [0.9, 1.5]"), encoding="utf-8")
    grid = invoke("plan", other, "--store", store).stdout
    assert "retrievers: 2: bm25-k1-0.9, bm25-k1-1.5" in grid.splitlines()
    other.write_text(other.read_text(encoding="utf-8").replace("[0.9, 1.5]", "0.9"))
    (index,) = [r for r in rows(invoke, other, "--store", store) if r["asset"] == "lexical_index"]
    assert (index["partition"], index["action"]) == ({"retriever": "bm25"}, "compute")
    assert index["reasons"] == [{"what": "k1", "old": "1.2", "new": "0.9"}]
    each = invoke("plan", other, "--store", store, "--all").stdout
    assert "lexical_index[retriever=bm25]" in each
    table = invoke("plan", other, "--store", store, "--top-k", 3, "--format", "csv").stdout
    read = {row["asset"]: row for row in csv.DictReader(io.StringIO(table))}
    assert read["lexical_index"]["reasons"] == "k1 1.2 -> 0.9"
    assert read["lexical_runs"]["partition"] == "retriever=bm25, top_k=3"
    assert read["lexical_runs"]["action"] == "check"


def test_what_cannot_be_read_is_one_line(invoke: Invoke, tmp_path: Path, store: Path) -> None:
    result = invoke("plan", tmp_path / "nowhere", "--store", store)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
