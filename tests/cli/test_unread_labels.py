"""Files that look like labels or questions and are not read as such are named."""

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
PROMPT = "version: 1\n\n[user]\n{question}\n{context}\n"
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


def test_questions_that_are_not_read(tmp_path: Path, invoke: Invoke) -> None:
    root, store = tmp_path / "pages", ("--store", tmp_path / "store")
    root.mkdir()
    (root / "fares.md").write_text("A ferry leaves at noon.\n", encoding="utf-8")
    (root / "queries.txt").write_text("When does the ferry leave?\n", encoding="utf-8")
    (root / "testset.csv").write_text("user_input,reference\nWhen?,noon\n", encoding="utf-8")
    (root / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    where = "questions are read from queries.jsonl or queries.csv\n"
    lines = [
        f"note: 1 file looks like questions and is read as a document: queries.txt; {where}",
        f"note: 1 file looks like questions and is not read: testset.csv; {where}",
    ]
    asked = invoke("ask", root, "ferry", *store)
    assert "".join(lines) in asked.stderr, asked.output
    evaluated = invoke("evaluate", root, *store)
    assert evaluated.exit_code == 1
    assert "2 files look like questions and are not read: queries.txt, testset.csv" in (
        evaluated.stderr
    )
    (root / "queries.csv").write_text("query_id,text\nq1,ferry\n", encoding="utf-8")
    read_from = "testset.csv; questions are read from queries.csv\n"
    assert read_from in invoke("evaluate", root, *store).stderr
    assert read_from.strip() in invoke("validate", root, *store).output


def test_files_beside_equal_documents(tmp_path: Path, invoke: Invoke) -> None:
    store = ("--store", tmp_path / "store")
    asks = "llm: {model: m}\ngenerators: {writer: {type: llm, prompt: prompt.txt}}\n"
    for name, files in (("a", ("notes.txt", "prompt.txt")), ("b", ())):
        root = folder(tmp_path / name, *files)
        (root / "experiment.yaml").write_text(
            CONFIG.replace("tiny", name) + (asks if files else ""), encoding="utf-8"
        )
    (tmp_path / "a" / "prompt.txt").write_text(PROMPT, encoding="utf-8")
    line = "1 file beside the documents is not read: notes.txt"
    assert line in invoke("evaluate", tmp_path / "a", *store).stderr
    second = invoke("evaluate", tmp_path / "b", *store)
    assert (second.exit_code, "beside the documents" in second.stderr) == (0, False)
    for name in "ab":
        page = Path("".join(invoke("report", tmp_path / name, *store).stdout.split()))
        assert (line in page.read_text(encoding="utf-8")) == (name == "a")
