"""``rag-assets status`` and ``report``."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

import rag_assets
from rag_assets.analysis.store_status import status_sheet
from rag_assets.pipeline.evaluations import read_evaluation, snapshot_text
from rag_assets.sheets.terminal_table import sheet_view
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke

YAML = "retrievers: {bm25: {type: bm25}}\ntop_k: [1]\n"


def test_each_experiment_with_its_state(invoke: Invoke, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    empty = invoke("status", *store)
    assert (empty.exit_code, "no experiment was evaluated in" in empty.stdout) == (0, True)
    schedule = "schedule: {cron: '0 3 * * *', timezone: Europe/Prague}\n"
    one = write_beir(tmp_path / "one", {"experiment.yaml": YAML + schedule})
    two = write_beir(
        tmp_path / "two", {"experiment.yaml": YAML, "qrels/test.tsv": None, "documents.md": None}
    )
    gone = write_beir(tmp_path / "gone", {"experiment.yaml": YAML})
    for folder in (one, two, gone):
        assert invoke("evaluate", folder, *store).exit_code == 0
    assert invoke("anchor", one, *store).exit_code == 0
    shutil.rmtree(gone)
    (one / "experiment.yaml").write_text(YAML.replace("bm25}", "bm25, k1: 0.4}") + schedule)

    rows = {row["experiment"]: row for row in json.loads(status(invoke, store, "json"))}
    assert set(rows) == {"one", "two", "gone"}
    assert (rows["one"]["best"], rows["one"]["primary"]) == (["bm25"], "ndcg@1")
    assert rows["one"]["value"] == 1.0
    assert rows["one"]["compute"] == 1
    assert rows["one"]["check"] > 0
    assert rows["one"]["anchor"]
    assert rows["one"]["schedule"] == "0 3 * * * Europe/Prague"
    assert rows["one"]["complete"] is True
    assert (rows["two"]["best"], rows["two"]["value"]) == ([], None)
    assert (rows["two"]["compute"], rows["two"]["check"]) == (0, 0)
    assert rows["gone"]["problem"] == "its source is gone"
    assert rows["gone"]["best"] == ["bm25"]

    day = rows["one"]["evaluated"][:10]
    text = io.StringIO()
    Console(file=text, width=60).print(sheet_view(status_sheet(list(rows.values()), "store")))
    narrow = text.getvalue()
    assert day in narrow
    assert "not shown, the terminal is too narrow: anchor" in narrow
    assert max(map(len, narrow.splitlines())) <= 60


def test_a_source_that_cannot_be_read_hides_no_other(invoke: Invoke, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    for name in ("a", "b"):
        folder = write_beir(tmp_path / name, {"experiment.yaml": YAML})
        assert invoke("evaluate", folder, *store).exit_code == 0
    (tmp_path / "a" / "experiment.yaml").write_text("topk: [1]\n")
    rows = json.loads(status(invoke, store, "json"))
    assert "unknown key 'topk'" in rows[0]["problem"]
    assert (rows[1]["problem"], rows[1]["compute"]) == (None, 0)


def test_damage_is_in_the_list_and_ends_with_what_repairs_it(
    invoke: Invoke, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "store")
    folders = [write_beir(tmp_path / name, {"experiment.yaml": YAML}) for name in ("a", "b")]
    for folder in folders:
        assert invoke("evaluate", folder, *store).exit_code == 0
    undamaged = json.loads(status(invoke, store, "json"))
    root = tmp_path / "store" / "a"
    for file in (root / "current", root / "evaluations" / "{}.json"):
        latest = (root / "current").read_text()
        Path(str(file).format(latest)).write_text("{}")
        result = invoke("status", *store, "--format", "json")
        damaged, other = json.loads(result.stdout)
        assert (result.exit_code, other) == (3, undamaged[1])
        assert "rag-assets evaluate" in damaged["problem"]
        assert result.stderr.splitlines()[-1] == f"error: {damaged['problem']}"
        assert invoke("evaluate", folders[0], *store).exit_code == 0
        repaired = json.loads(status(invoke, store, "json"))
        assert [row["problem"] for row in repaired] == [None, None]


def test_what_was_made_in_python_is_listed_and_not_planned(invoke: Invoke, tmp_path: Path) -> None:
    rag_assets.evaluate(
        documents={"d1": "Dogs pay a fee.", "d2": "Bicycles are free."},
        queries={"q1": "a fee for dogs"},
        judgments={"q1": {"d1": 1}},
        retrievers={"bm25": {"type": "bm25"}, "mine": lambda query, k: ["d2", "d1"]},
        store=tmp_path / "store",
    )
    (row,) = json.loads(status(invoke, ("--store", tmp_path / "store"), "json"))
    assert (row["experiment"], row["best"], row["compute"]) == ("live", ["bm25"], None)
    assert row["problem"] == "made in Python, and evaluated there"


def status(invoke: Invoke, store: tuple[object, ...], form: str) -> str:
    result = invoke("status", *store, "--format", form)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_anchor_for_programs(invoke: Invoke, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    folder = write_beir(tmp_path / "one", {"experiment.yaml": YAML})
    assert invoke("evaluate", folder, *store).exit_code == 0
    pinned = invoke("anchor", folder, *store)
    (row,) = json.loads(invoke("anchor", folder, *store, "--show", "--format", "json").stdout)
    assert pinned.stdout == f"one: anchor is {row['anchor']}, of {row['started']}\n"
    assert row["anchor"] == json.loads(status(invoke, store, "json"))[0]["anchor"]


def test_wrong_usage_is_told_as_all_errors_are(invoke: Invoke) -> None:
    for words in (
        ["evaluate"],
        ["evalute"],
        ["status", "--nope"],
        ["ask", ".", "x", "--top-k", "a"],
    ):
        result = invoke(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.splitlines()[-1].startswith("error: ")
        assert result.stderr.startswith("Usage: ")


def test_the_page_is_written_where_it_is_wanted(invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert invoke("report", tiny, "--store", store).exit_code == 1
    assert invoke("evaluate", tiny, "--store", store).exit_code == 0
    page = store / "tiny" / "report.html"
    text = page.read_text(encoding="utf-8")
    page.unlink()
    written = invoke("report", tiny, "--store", store)
    assert (written.exit_code, written.stdout) == (0, f"{page}\n")
    assert page.read_text(encoding="utf-8") == text
    other = tmp_path / "sent" / "page.html"
    assert invoke("report", tiny, "--store", store, "--out", other).stdout == f"{other}\n"
    assert other.read_text(encoding="utf-8") == text


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
