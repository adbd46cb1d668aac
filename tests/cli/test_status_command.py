"""``rag-assets status`` and ``report``."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from rich.console import Console

import rag_assets
from rag_assets.report.store_status import status_sheet
from rag_assets.report.terminal_table import sheet_view
from tests.beir_folder import write_beir

Invoke = Callable[..., Result]

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

    lines = status(invoke, store, "table").splitlines()
    assert lines[0].split()[:4] == ["experiment", "evaluated", "best", "now"]
    shown = {line.split()[0]: line for line in lines[1:] if line[0] != " "}
    assert "no labels" in shown["two"]
    assert "up to date" in shown["two"]
    assert "bm25 ndcg@1" in shown["one"]
    assert "experiment,source,evaluated" in status(invoke, store, "csv")

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


def test_a_folder_is_no_file(invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
    result = invoke("report", tiny, "--store", tmp_path / "store", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"--out {tmp_path} is a folder" in result.stderr
