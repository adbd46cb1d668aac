"""``rag-assets status`` and ``report``."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

import rag_assets
from rag_assets.analysis.store_status import status_sheet
from rag_assets.sheets.terminal_table import sheet_view
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke, parsed

YAML = "retrievers: {bm25: {type: bm25}}\ntop_k: [1]\n"


def status(invoke: Invoke, store: tuple[object, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parsed(invoke("status", *store, "--format", "json"))
    return found


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
    pinned = invoke("anchor", one, *store)
    shutil.rmtree(gone)
    (one / "experiment.yaml").write_text(YAML.replace("bm25}", "bm25, k1: 0.4}") + schedule)
    rows = {row["experiment"]: row for row in status(invoke, store)}
    assert set(rows) == {"one", "two", "gone"}
    assert (rows["one"]["best"], rows["one"]["primary"]) == (["bm25"], "ndcg@1")
    assert rows["one"]["value"] == 1.0
    assert rows["one"]["compute"] == 1
    assert rows["one"]["check"] > 0
    (anchor,) = parsed(invoke("anchor", one, *store, "--show", "--format", "json"))
    assert rows["one"]["anchor"] == anchor["anchor"]
    assert pinned.stdout == f"one: anchor is {anchor['anchor']}, of {anchor['started']}\n"
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


def test_damage_is_in_the_list_with_what_repairs_it_and_hides_no_other(
    invoke: Invoke, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "store")
    folders = [write_beir(tmp_path / name, {"experiment.yaml": YAML}) for name in ("a", "b")]
    for folder in folders:
        assert invoke("evaluate", folder, *store).exit_code == 0
    undamaged = status(invoke, store)
    root = tmp_path / "store" / "a"
    for file in (root / "current", root / "evaluations" / "{}.json"):
        latest = (root / "current").read_text()
        Path(str(file).format(latest)).write_text("{}")
        result = invoke("status", *store, "--format", "json")
        damaged, other = json.loads(result.stdout)
        assert (result.exit_code, other) == (3, undamaged[1])
        assert "rag-assets evaluate" in damaged["problem"]
        problem = damaged["problem"].replace("evaluate", f"evaluate --store {store[1]}")
        assert result.stderr.splitlines()[-1] == f"error: {problem}"
        assert invoke("evaluate", folders[0], *store).exit_code == 0
        assert [row["problem"] for row in status(invoke, store)] == [None, None]
    (folders[0] / "experiment.yaml").write_text("topk: [1]\n")
    unread, other = status(invoke, store)
    assert "unknown key 'topk'" in unread["problem"]
    assert (other["problem"], other["compute"]) == (None, 0)


def test_what_was_made_in_python_is_listed_and_not_planned(invoke: Invoke, tmp_path: Path) -> None:
    rag_assets.evaluate(
        documents={"d1": "Dogs pay a fee.", "d2": "Bicycles are free."},
        queries={"q1": "a fee for dogs"},
        judgments={"q1": {"d1": 1}},
        retrievers={"bm25": {"type": "bm25"}, "mine": lambda query, k: ["d2", "d1"]},
        store=tmp_path / "store",
    )
    (row,) = status(invoke, ("--store", tmp_path / "store"))
    assert (row["experiment"], row["best"], row["compute"]) == ("live", ["bm25"], None)
    assert row["problem"] == "made in Python, and evaluated there"


def test_the_page_is_written_where_it_is_wanted(
    invoke: Invoke, again: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, store = again
    assert invoke("report", folder, "--store", tmp_path / "empty").exit_code == 1
    page = store / "tiny" / "report.html"
    page.unlink()
    written = invoke("report", folder, "--store", store)
    assert (written.exit_code, written.stdout) == (0, f"{page}\n")
    text = page.read_text(encoding="utf-8")
    other = tmp_path / "sent" / "page.html"
    assert invoke("report", folder, "--store", store, "--out", other).stdout == f"{other}\n"
    assert other.read_text(encoding="utf-8") == text
