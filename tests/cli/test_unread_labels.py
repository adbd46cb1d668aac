"""Labels that are not read, or are of documents that are not there, are named."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

from rag_assets.analysis.result import EvaluationResult
from rag_assets.sources import open_dataset
from rag_assets.sources.labelled_folder import look_alikes
from tests.cli.conftest import Invoke, parsed

CONFIG = "name: tiny\nretrievers: {a: {type: bm25}, b: {type: bm25, k1: 0.9}}\ntop_k: [1]\n"
AS_JSON = ("--format", "json")
PROMPT = "version: 1\n\n[user]\n{question}\n{context}\n"
LINE = (
    "1 file looks like questions or labels, not read as such: Judgments.tsv; format jsonl reads "
    "questions from queries.jsonl or .csv, labels from judgments.jsonl or .csv"
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


def test_every_command_that_reads_the_folder(tmp_path: Path, invoke: Invoke) -> None:
    root = folder(tmp_path / "data")
    (root / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    store = ("--store", tmp_path / "store")
    assert LINE not in invoke("evaluate", root, *store).stderr
    folder(root, "Judgments.tsv")
    for command in (
        ("validate", root, *store),
        ("evaluate", root, *store),
        ("init", root, "--out", tmp_path / "new.yaml"),
        ("convert", root, "--to", "jsonl", "--out", tmp_path / "x"),
    ):
        assert f"{LINE}\n" in invoke(*command).stderr, command
    page = Path("".join(invoke("report", root, *store).stdout.split()))
    assert LINE in page.read_text(encoding="utf-8")
    refused = invoke("gate", root, "--against", "latest", *store)
    assert (refused.exit_code, "tiny had no labels when it was evaluated" in refused.stderr) == (
        2,
        True,
    )
    (root / "judgments.jsonl").write_text('{"query_id": "q1", "doc_id": "d1"}\n', encoding="utf-8")
    assert "like questions or labels" not in invoke("evaluate", root, *store).output


LOOK = [
    *("qrels.xlsx", "test_qrels.json", "qrels/notes.xlsx", "ground-truth.tsv", "Relevance.txt"),
    *("labels/gold.csv", "judgements"),
]
OTHERS = [
    *("labelled_ships.csv", "goldfish.csv", "labels.py", "notes/a/qrels.tsv", ".labels.csv"),
    "results.csv",
]


@pytest.mark.parametrize("name", [*LOOK, *OTHERS])
def test_what_looks_like_labels(tmp_path: Path, name: str) -> None:
    lines = look_alikes(open_dataset(folder(tmp_path, name)))
    assert any(name in line for line in lines) == (name in LOOK)


def test_a_folder_of_qrels_without_a_known_file(tmp_path: Path) -> None:
    root = folder(tmp_path, "corpus.jsonl", "qrels/test.xlsx", "qrels/dev.xlsx")
    assert look_alikes(open_dataset(root)) == [
        "2 files look like labels, not read as such: qrels/dev.xlsx, qrels/test.xlsx; format beir "
        "reads a folder with corpus.jsonl, queries.jsonl and qrels/"
    ]


def test_questions_that_are_not_read(tmp_path: Path, invoke: Invoke) -> None:
    root, store = tmp_path / "pages", ("--store", tmp_path / "store")
    root.mkdir()
    (root / "fares.md").write_text("A ferry leaves at noon.\n", encoding="utf-8")
    (root / "queries.txt").write_text("When does the ferry leave?\n", encoding="utf-8")
    (root / "testset.csv").write_text("ask,reply\nWhen?,noon\n", encoding="utf-8")
    (root / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    line = (
        "2 files look like questions or labels, not read as such: queries.txt, testset.csv; "
        "format markdown reads questions from queries.jsonl or .csv, labels from "
        "judgments.jsonl or .csv\n"
    )
    asked = invoke("ask", root, "ferry", *store)
    assert f"note: {line}" in asked.stderr, asked.output
    evaluated = invoke("evaluate", root, *store)
    assert evaluated.exit_code == 1
    assert line in evaluated.stderr
    (root / "queries.csv").write_text("query_id,text\nq1,ferry\n", encoding="utf-8")
    (root / "judgments.csv").write_text("query_id,doc_id\nq1,fares.md\n", encoding="utf-8")
    line = line.replace(" or labels", "")
    assert line in invoke("evaluate", root, *store).stderr
    assert line.strip() in invoke("validate", root, *store).output


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


pytrec_eval = pytest.importorskip("pytrec_eval")

KEEPING_CONFIG = """name: kept
dataset: {{path: data, unknown_documents: {mode}}}
retrievers:
  bm25: {{type: bm25, analyzer: standard}}
  other: {{type: bm25, analyzer: standard, b: 0.1}}
  both: {{type: rrf, inputs: [bm25, other]}}
top_k: [3, 20]
metrics: [ndcg, recall, map, bpref, r_precision, group_recall]
primary: ndcg@3
statistics: {{resamples: 100}}
"""
WORDS = ["ferry", "harbour", "ticket", "storm", "engine", "crew", "foam", "winter", "dog", "deck"]
THEIRS = {"recall": "recall_3", "ndcg": "ndcg_cut_3", "map": "map_cut_3"}
WHOLE = {"ndcg": "ndcg", "map": "map", "bpref": "bpref", "r_precision": "Rprec"}


def made(root: Path, mode: str = "keep") -> dict[str, dict[str, int]]:
    """Write 20 documents and 12 queries whose labels name six documents more; return the qrels."""
    chance = random.Random(7)
    data = root / "data"
    (data / "qrels").mkdir(parents=True)
    texts = [" ".join(chance.choices(WORDS, k=9)) for _ in range(20)]
    corpus = [{"_id": f"d{n:02d}", "text": text} for n, text in enumerate(texts)]
    queries = [{"_id": f"q{n:02d}", "text": " ".join(chance.sample(WORDS, 3))} for n in range(12)]
    ids = [f"d{n:02d}" for n in range(26)]
    qrels: dict[str, dict[str, int]] = {
        query["_id"]: {one: chance.choice((0, 0, 1, 2)) for one in chance.sample(ids, 9)}
        for query in queries
    }
    qrels["q00"] = {"d21": 2, "d22": 1, "d23": 0}
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (data / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    pairs = [f"{q}\t{d}\t{grade}\n" for q, of in qrels.items() for d, grade in of.items()]
    (data / "qrels" / "test.tsv").write_text("".join(pairs), encoding="utf-8")
    (root / "experiment.yaml").write_text(KEEPING_CONFIG.format(mode=mode), encoding="utf-8")
    return qrels


@pytest.fixture(scope="module")
def kept(
    tmp_path_factory: pytest.TempPathFactory, invoke: Invoke
) -> tuple[Path, dict[str, dict[str, int]], Result]:
    root = tmp_path_factory.mktemp("kept")
    return root, made(root), invoke("evaluate", root, "--store", root / "store")


def test_an_error_is_the_default_and_says_what_keeps_them(tmp_path: Path, invoke: Invoke) -> None:
    made(tmp_path, "error")
    result = invoke("evaluate", tmp_path, "--store", tmp_path / "store")
    assert result.exit_code == 1
    assert "unknown document" in result.stderr
    assert result.stderr.endswith("; `dataset: {unknown_documents: keep}` keeps such judgments\n")


def test_every_value_is_that_of_trec_eval(kept: Any) -> None:
    root, qrels, evaluated = kept
    assert evaluated.exit_code == 0, evaluated.output
    result = EvaluationResult.current(root / "store" / "kept")
    measures = {*THEIRS.values(), *WHOLE.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {m.replace("_3", ".3") for m in measures})
    for retriever in ("bm25", "other", "both"):
        run: dict[str, dict[str, float]] = {}
        for row in result.table(result.run_keys(retriever)[20]).to_pylist():
            run.setdefault(row["query_id"], {})[row["unit_id"]] = -row["rank"]
        expected = evaluator.evaluate(run)
        for top_k, names in ((3, THEIRS), (20, WHOLE)):
            rows = result.query_metrics(top_k)[retriever].to_pylist()
            assert len(rows) == len(expected) == 12
            for row in rows:
                for ours, theirs in names.items():
                    value = expected[row["query_id"]][theirs]
                    assert row[ours] == pytest.approx(value, abs=1e-9), (row["query_id"], ours)


def test_they_are_counted_where_queries_are(kept: Any, invoke: Invoke) -> None:
    root, qrels, evaluated = kept
    unknown = [(q, d, g) for q, of in qrels.items() for d, g in of.items() if int(d[1:]) > 19]
    relevant = sum(grade > 0 for _, _, grade in unknown)
    line = f"such judgments are kept: {len(unknown)}, of which relevant: {relevant}: "
    store = ("--store", root / "store")
    assert f"6 judged documents are not in the corpus; {line}" in one_line(evaluated.stderr)
    rows = parsed(invoke("leaderboard", root, *store, *AS_JSON))
    assert {row["n_not_in_corpus"] for row in rows} == {relevant}
    assert f"({relevant} of them in no document of the corpus)" in one_line(evaluated.stdout)
    checked = invoke("validate", root, *store, "--format", "json")
    assert checked.exit_code == 0, checked.output
    assert f"note: qrels: 6 judged documents are not in the corpus; {line}" in checked.stderr
    kinds = {row["check"] for row in json.loads(checked.stdout)}
    assert kinds <= {"near_duplicate_document", "unjudged_twin"}
    page = Path(one_line(invoke("report", root, *store).stdout).strip()).read_text("utf-8")
    assert "not in corpus" in page
    assert line in page


def test_every_reader_copes(kept: Any, invoke: Invoke, tmp_path: Path) -> None:
    root, qrels, _ = kept
    store = ("--store", root / "store")
    relevant = sum(g > 0 for of in qrels.values() for d, g in of.items() if int(d[1:]) > 19)
    assert attributed(invoke, root, store) == {relevant}
    assert "kept: 31 reuse" in invoke("plan", root, *store).stdout
    with duckdb.connect(str(root / "store" / "warehouse.duckdb"), read_only=True) as connection:
        counted = "SELECT DISTINCT n_not_in_corpus FROM leaderboard"
        assert connection.sql(counted).fetchall() == [(relevant,)]
        sql = "SELECT count(*) FROM attributions WHERE lost_at = 'not_in_corpus'"
        assert connection.sql(sql).fetchall() == [(3 * relevant,)]
    for arguments in (
        ("compare", root, "bm25", "both", *store),
        ("gate", root, "--against", "latest", "--max-drop", 1, *store),
        ("pool", root, "--out", tmp_path / "sheet.csv", *store),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0, (arguments, result.output)


@pytest.mark.parametrize("form", ["jsonl", "beir", "trec", "llamaindex"])
def test_they_are_converted(kept: Any, invoke: Invoke, tmp_path: Path, form: str) -> None:
    root, qrels, _ = kept
    result = invoke("convert", root, "--to", form, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    name = "dataset.json" if form == "llamaindex" else "."
    config = f"dataset: {{path: out/{name}, unknown_documents: keep}}\n"
    (tmp_path / "experiment.yaml").write_text(config, encoding="utf-8")
    checked = invoke("validate", tmp_path, "--store", tmp_path / "store")
    assert checked.exit_code == 0, checked.output
    relevant = sum(g > 0 for of in qrels.values() for d, g in of.items() if int(d[1:]) > 19)
    assert f"of which relevant: {relevant}: " in one_line(checked.stderr)


def test_a_document_that_comes_is_found(kept: Any, invoke: Invoke, tmp_path: Path) -> None:
    root, store = tmp_path / "kept", ("--store", tmp_path / "kept" / "store")
    shutil.copytree(kept[0], root)
    with (root / "data" / "corpus.jsonl").open("a", encoding="utf-8") as corpus:
        corpus.write('{"_id": "d21", "text": "ferry harbour"}\n')
    assert evaluated(invoke, root, store) == attributed(invoke, root, store)
    gated = invoke("gate", root, "--against", "previous", "--max-drop", 1, *store)
    assert gated.exit_code == 0, gated.output
    assert invoke("diff", root, "previous", "latest", *store).exit_code == 0


def evaluated(invoke: Invoke, root: Path, store: Any) -> set[int]:
    return {row["n_not_in_corpus"] for row in parsed(invoke("evaluate", root, *store, *AS_JSON))}


def attributed(invoke: Invoke, root: Path, store: Any) -> set[int]:
    return {row["not_in_corpus"] for row in parsed(invoke("attribution", root, *store, *AS_JSON))}


def test_quotes_and_feedback_of_a_folder(invoke: Invoke, tmp_path: Path) -> None:
    """A quote of a document that is gone has no place, and each is an evidence of its own."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "fares.md").write_text("A dog needs a ticket of 10 crowns.", encoding="utf-8")
    (data / "queries.jsonl").write_text('{"query_id": "q", "text": "dog ticket"}\n')
    labels = [
        {"doc_id": "fares.md", "quote": "10 crowns"},
        {"doc_id": "gone.md", "quote": "11 crowns"},
        {"doc_id": "gone.md", "quote": "12 crowns", "source": "feedback: 1 up, 0 down"},
    ]
    lines = "".join(json.dumps({"query_id": "q", **one}) + "\n" for one in labels)
    (data / "judgments.jsonl").write_text(lines, encoding="utf-8")
    vote = '{"query_id": "q", "doc_id": "fares.md", "vote": "up"}\n'
    (tmp_path / "votes.jsonl").write_text(vote, encoding="utf-8")
    config = "dataset: {path: data, unknown_documents: keep}\nretrievers: {a: {type: bm25}}\n"
    (tmp_path / "experiment.yaml").write_text(f"name: kept\n{config}top_k: [1]\n")
    store = ("--store", tmp_path / "store")
    assert evaluated(invoke, tmp_path, store) == attributed(invoke, tmp_path, store) == {2}
    voted = invoke("pool", tmp_path, "--feedback", tmp_path / "votes.jsonl")
    assert voted.exit_code == 0, voted.output


def test_a_corpus_of_another_dataset_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    made(tmp_path)
    corpus = tmp_path / "data" / "corpus.jsonl"
    corpus.write_text('{"_id": "other", "text": "ferry"}\n', encoding="utf-8")
    result = invoke("evaluate", tmp_path, "--store", tmp_path / "store")
    assert result.exit_code == 1
    assert "test.tsv: names no document of the corpus; the first one is " in result.stderr


def test_ids_of_chunks_are_told_though_they_are_kept(invoke: Invoke, tmp_path: Path) -> None:
    made(tmp_path)
    with (tmp_path / "data" / "qrels" / "test.tsv").open("a", encoding="utf-8") as qrels:
        qrels.write("q01\td03#0-10\t1\n")
    result = invoke("validate", tmp_path, "--store", tmp_path / "store", "--format", "json")
    assert result.exit_code == 0, result.output
    levels = [row for row in json.loads(result.stdout) if row["check"] == "id_level"]
    assert [(row["severity"], row["document_id"]) for row in levels] == [("warning", "d03#0-10")]


def one_line(text: str) -> str:
    return " ".join(text.split())
