"""Files that look like labels and are not read are told wherever "no labels" is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from rag_assets.sources import open_dataset
from rag_assets.sources.formats import unread_labels

Invoke = Callable[..., Result]

CONFIG = "name: tiny\nretrievers: {a: {type: bm25}, b: {type: bm25, k1: 0.9}}\ntop_k: [1]\n"
LINE = (
    "1 file looks like labels and is not read as such: Judgments.tsv; of a jsonl folder, labels "
    "are judgments.jsonl or judgments.csv"
)


def folder(root: Path, *names: str) -> Path:
    """Write two documents, a query, and empty files of these names."""
    documents = "corpus.jsonl" if "corpus.jsonl" in names else "documents.jsonl"
    rows = {documents: [{"_id": "d1", "text": "ferry"}, {"_id": "d2", "text": "storm"}]}
    rows["queries.jsonl"] = [{"_id": "q1", "text": "ferry"}]
    for name in {*names, *rows}:
        file, lines = root / name, rows.get(name, [])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return root


def test_every_command_that_says_no_labels(tmp_path: Path, invoke: Invoke) -> None:
    root = folder(tmp_path / "data", "Judgments.tsv")
    (root / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    store = ("--store", tmp_path / "store")
    checked = invoke("validate", root, *store)
    assert f"not checked: labels: there are none yet; {LINE}\n" in checked.stderr
    evaluated = invoke("evaluate", root, *store)
    assert evaluated.exit_code == 0, evaluated.output
    assert "no labels yet" in evaluated.stdout
    assert f"note: {LINE}\n" in evaluated.stderr
    for command, code in (
        (("leaderboard",), 1),
        (("leaderboard", "--ties"), 1),
        (("compare",), 1),
        (("attribution",), 1),
        (("gate", "--against", "baseline"), 2),
    ):
        result = invoke(command[0], root, *command[1:], *store)
        expected = f"error: tiny had no labels when it was evaluated; {LINE}\n"
        assert (result.exit_code, result.stderr) == (code, expected), command
    page = Path("".join(invoke("report", root, *store).stdout.split()))
    assert LINE in page.read_text(encoding="utf-8")
    started = invoke("init", root, "--out", tmp_path / "new.yaml")
    assert " 0 judgments\n" in started.stdout
    assert f"note: {LINE}\n" in started.stderr
    assert (
        f"note: {LINE}\n"
        in invoke("convert", root, "--to", "jsonl", "--out", tmp_path / "x").stderr
    )
    (root / "judgments.jsonl").write_text('{"query_id": "q1", "doc_id": "d1"}\n', encoding="utf-8")
    assert "looks like labels" not in invoke("evaluate", root, *store).output


def test_a_page_is_written_anew_for_it(tmp_path: Path, invoke: Invoke) -> None:
    root = folder(tmp_path / "data")
    (root / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    store = ("--store", tmp_path / "store")
    assert "looks like labels" not in invoke("evaluate", root, *store).output
    folder(root, "Judgments.tsv")
    assert f"note: {LINE}\n" in invoke("evaluate", root, *store).stderr
    page = Path("".join(invoke("report", root, *store).stdout.split()))
    assert LINE in page.read_text(encoding="utf-8")


def test_tuned_weights_name_the_file(tmp_path: Path, invoke: Invoke) -> None:
    root = folder(tmp_path / "data", "Judgments.tsv")
    fused = "  both: {type: convex, inputs: [a, b], weights: tuned}\n"
    config = "split: {dev: 0.5}\nretrievers:\n  a: {type: bm25}\n  b: {type: bm25, k1: 0.9}\n"
    (root / "experiment.yaml").write_text(config + fused, encoding="utf-8")
    result = invoke("plan", root, "--store", tmp_path / "store")
    assert f"tuned weights need labels to be chosen by; {LINE}\n" in result.stderr


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("qrels.xlsx", True),
        ("test_qrels.json", True),
        ("qrels/notes.xlsx", True),
        ("ground-truth.tsv", True),
        ("Relevance.txt", True),
        ("labels/gold.csv", True),
        ("judgements", True),
        ("labelled_ships.csv", False),
        ("goldfish.csv", False),
        ("labels.py", False),
        ("notes/a/qrels.tsv", False),
        (".labels.csv", False),
        ("results.csv", False),
    ],
)
def test_what_looks_like_labels(tmp_path: Path, name: str, told: bool) -> None:
    line = unread_labels(open_dataset(folder(tmp_path, name)))
    assert (line is not None and name in line) == told


def test_a_folder_of_qrels_without_a_known_file(tmp_path: Path) -> None:
    root = folder(tmp_path, "corpus.jsonl", "qrels/test.xlsx", "qrels/dev.xlsx")
    assert unread_labels(open_dataset(root)) == (
        "2 files look like labels and are not read as such: qrels/dev.xlsx, qrels/test.xlsx; of a "
        "beir folder, labels are qrels/test.tsv"
    )
