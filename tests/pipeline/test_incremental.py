"""What a change computes anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from rag_assets.analysis.leaderboard import leaderboard_sheets, selected_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.slices import slices_of
from rag_assets.chunking.chunker import Cutter, cut_documents
from rag_assets.chunking.parent import ParentChunking
from rag_assets.chunking.recursive import RecursiveChunking
from rag_assets.chunking.semantic import SemanticChunking
from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.report.html import render
from rag_assets.schemas import column_values
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.sources.fields import Place
from rag_assets.sources.row_files import Record, parse_object
from rag_assets.store import blocks
from rag_assets.store.artifacts import Artifact
from rag_assets.store.settings import StoreSettings
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import CONFIG, DOCUMENTS, QUERIES, Tiny, is_done, matching, planned

TOP_K = (1, 3, 5)

SUMMARIES = ("metrics_summary/*", "intervals/*", "leaderboard")
NUMBERS = (*SUMMARIES, "comparisons")


def test_exactly_the_dependants_of_a_change_are_computed(tiny: Tiny) -> None:
    """The matrix of invalidation has more changes; these are made one after the other."""

    def computes(*expected: str) -> None:
        plan = planned(tiny)
        computed = tiny.run()
        assert computed == matching(tiny.pipeline(), *expected)
        assert is_done(plan, computed)

    # Blanks at the end of a document; the small chunks stay, and what is found.
    tiny.write_document("crew.md", f"{DOCUMENTS['crew.md']}\n  \n")
    of_whole = (
        f"{asset}/{name}*"
        for asset in ("relevant_units", "retriever_contexts", "metrics")
        for name in ("bm25-whole", "hybrid")
    )
    computes("documents", "qrels", "chunks/*", "term_counts/whole:english", *of_whole)
    # An answer; no mean depends on it, until answers are measured.
    tiny.replace("queries.jsonl", '"q1",', '"q1", "answers": ["11 crowns"],')
    computes("queries", "query_facts")
    tiny.config["metrics"] = [*CONFIG["metrics"], "answer_hit"]
    tiny.write_config()
    computes("metrics/*", *NUMBERS)
    tiny.replace("queries.jsonl", "11 crowns", "10 crowns")
    computes("queries", "query_facts", "metrics/*", *NUMBERS)
    tiny.replace("fares.md", "free of charge", "safe of charge")
    of_text = ("documents", "qrels", "chunks/*", "term_counts/*", "lexical_index/*")
    computes(*of_text, "lexical_runs/*", "retriever_contexts/*", "metrics/*")
    assert tiny.run() == set()


def test_old_and_new_artifacts_are_the_same_as_from_an_empty_store(
    tiny: Tiny, tmp_path: Path
) -> None:
    """After a chain of changes, nothing is left of the states between."""
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.replace("fares.md", "40 crowns", "45 crowns")
    tiny.configure("deep", type="rrf", inputs=["bm25", "okapi"], candidates=50)
    tiny.config["top_k"] = [1, 3, 5, 10]
    tiny.write_config()
    tiny.run()
    other = Tiny(tmp_path / "other", tiny.config).write()
    other.replace("fares.md", "40 crowns", "45 crowns")
    other.run()
    assert tiny.snapshot().content == other.snapshot().content


def test_files_of_another_program_in_the_store_do_no_harm(tiny: Tiny) -> None:
    (tiny.objects("metrics") / ".DS_Store").write_text("")
    (tiny.objects("metrics") / "half.parquet.tmp-0123456789ab").write_text("")
    assert tiny.run() == set()


def test_means_by_split_and_weight_by_hand(one: Tiny) -> None:
    folds, weights = ["dev", "dev", *["test"] * 4], [1, 2, 3, 4, 5, 8]
    answers = [["x"], [], "y", {"text": "z"}, True, None]
    rows = zip(QUERIES, folds, weights, answers, strict=True)
    one.write_rows("queries.jsonl", [{**q, "fold": f, "n": n, "answers": a} for q, f, n, a in rows])
    one.config |= {"split": {"field": "fold"}, "weight": "n"}
    one.write_config()
    result = evaluated(one.pipeline())
    values = {
        row["query_id"]: row["mrr"] for row in result.query_metrics(1)["bm25-whole"].to_pylist()
    }
    expected = {
        "test": (3 * values["q3"] + 4 * values["q4"] + 5 * values["q5"] + 8 * values["q6"]) / 20,
        "dev": (values["q1"] + 2 * values["q2"]) / 3,
    }
    board = result.leaderboard.to_pylist()
    assert [row["split"] for row in board] == ["test", "test", "dev", "dev"]
    for row in board:
        if row["retriever"] == "bm25-whole":
            assert row["mrr"] == pytest.approx(expected[row["split"]])
    assert shown(result)[0] == "tiny: test, top_k 1, weighted mean over 4 queries"
    assert shown(result, "dev")[0] == "tiny: dev, top_k 1, weighted mean over 2 queries"
    assert "Weighted means over 4 answerable queries of the test split" in render(result)
    slices = {one.value: one.n_queries for one in slices_of(result)}
    assert slices == {"engines": 1, "safety": 2}  # q1 and q2, fares and wind, are in dev
    assert [row["answers"] for row in one.rows(QUERY_FACTS_KEY)] == [["x"], [], ["y"], [], [], []]
    unread = "2 queries have an answer that is not a text; their answers are not used: q4, q5"
    assert unread in one.facts(QUERY_FACTS_KEY)["notes"]
    one.replace("queries.jsonl", '"n": 4', '"n": 0')
    problem = (
        r"yaml:\d+: `weight`: query 'q4' has 'n': 0; must be a positive number, at most 2\^53$"
    )
    with pytest.raises(DataError, match=problem):
        one.run()


COLUMNS = [
    "ndcg",
    "ndcg_exp",
    "precision",
    "precision(rel=2)",
    "bpref",
    "rbp(p=0.9)",
    "err(gmax=4)",
]


def test_parameters_reach_every_face(fresh: Tiny) -> None:
    fresh.config["retrievers"] = {"bm25": fresh.config["retrievers"]["bm25"]}
    fresh.config["metrics"] = ["ERR", "P", "P(rel=2)", "RBP(p=0.9)", "nDCG", "Bpref", "ndcg_exp"]
    fresh.config["metrics"] += ["recall", "group_recall", "full_recall", "group_ndcg@5"]
    fresh.config["primary"] = "RBP(p=0.9)@3"
    fresh.write_config()
    fresh.run()
    fresh.snapshot()
    experiment = load_experiment(fresh.folder)
    result = EvaluationResult.current(fresh.artifacts)
    assert experiment.primary == result.primary
    assert str(result.primary) == "rbp(p=0.9)@3"
    rows = selected_rows(result, Selection.of(experiment))
    assert [row["top_k"] for row in rows] == [1, 3, 5]
    assert [name for name in rows[0] if name in COLUMNS] == COLUMNS
    cell = result.query_metrics(3)["bm25"]
    assert [name for name in cell.column_names if name in COLUMNS] == COLUMNS
    assert rows[1]["rbp(p=0.9)"] == sum(cell["rbp(p=0.9)"].to_pylist()) / 6
    assert rows[1]["precision(rel=2)"] != rows[1]["precision"]
    for row in result.leaderboard.to_pylist():
        assert (row["group_ndcg"] is None) == (row["top_k"] != 5)
        assert row["group_recall"] == row["recall"] >= row["full_recall"]
    assert {1.0} <= set(cell["full_recall"].to_pylist()) <= {0.0, 1.0}
    assert set(slices_of(result)[0].means) == {"bm25"}
    console = Console(width=160)
    with console.capture() as shown:
        console.print(sheets_view(leaderboard_sheets(result, rows)))
    assert "rbp(p=0.9)*" in shown.get()
    assert "rbp(p=0.9) by top_k" in shown.get()
    assert "err(gmax=4)" in render(result)


def test_going_back_costs_nothing(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    assert tiny.run()
    tiny.configure("bm25", k1=1.2)
    assert tiny.run() == set()


Texts = dict[str, str]
TEXTS = {f"d{number:03d}": f"Text {number}. It has words.\n\nAnd more." for number in range(240)}
TABLES = ("documents", "chunks")
ASSETS = ("documents", "queries", "qrels", "chunks", "term_counts", "lexical_index")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TARGET", 400)


def write(root: Path, texts: Texts, chunking: dict[str, object]) -> Tiny:
    many = Tiny(root)
    many.config |= {
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"parts": chunking},
        "retrievers": {"bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english"}},
        "metrics": ["ndcg"],
    }
    many.folder.mkdir(exist_ok=True)
    many.write_rows("documents.jsonl", [{"id": name, "text": text} for name, text in texts.items()])
    many.write_rows("queries.jsonl", [{"query_id": "q", "text": "words"}])
    many.write_rows("judgments.jsonl", [{"query_id": "q", "doc_id": "d001"}])
    many.write_config()
    return many


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder for all stores: the versions of the code are found once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def computed(
    tmp_path: Path, state: Path, small_blocks: None
) -> Callable[[str], dict[str, Artifact]]:
    """Return a function that gives what the experiment has in a store, computed where needed."""

    def compute(store: str) -> dict[str, Artifact]:
        settings = StoreSettings(tmp_path / store, state)
        pipeline = Pipeline(load_experiment(tmp_path / "data"), settings)
        keys = {asset: STAGES[asset].keys(pipeline.experiment) for asset in ASSETS}
        return {asset: pipeline.materialize(asset, keys[asset])[0].artifact for asset in ASSETS}

    return compute


def edited(texts: Texts) -> Texts:
    return {**texts, "d120": "Another text."}


def inserted(texts: Texts) -> Texts:
    rows = list(texts.items())
    return dict([*rows[:90], ("new", "A new text."), *rows[90:]])


def removed(texts: Texts) -> Texts:
    return {one: text for one, text in texts.items() if one != "d077"}


def moved(texts: Texts) -> Texts:
    return {**removed(texts), "d077": texts["d077"]}


BLOCK_CHANGES = [(edited, 2), (inserted, 2), (removed, 1), (moved, 3)]
CUT: list[dict[str, object]] = [
    {"strategy": "none"},
    {"strategy": "recursive", "max_characters": 20, "overlap": 0},
    {
        "strategy": "parent",
        "child": {"strategy": "sentences", "sentences": 1},
        "parent": {"strategy": "none"},
    },
]


@pytest.mark.parametrize(
    ("chunking", "change", "most"),
    [*((CUT[0], *change) for change in BLOCK_CHANGES), *((one, edited, 2) for one in CUT[1:])],
)
def test_a_change_computes_its_blocks_and_gives_what_a_new_store_gives(
    tmp_path: Path,
    computed: Callable[[str], dict[str, Artifact]],
    chunking: dict[str, object],
    change: Callable[[Texts], Texts],
    most: int,
) -> None:
    write(tmp_path, TEXTS, chunking)
    before = computed("store")
    write(tmp_path, change(TEXTS), chunking)
    after, anew = computed("store"), computed("new")
    for asset in ASSETS:
        assert after[asset].manifest.digests == anew[asset].manifest.digests
    for asset in TABLES:
        known = {block.digest for block in before[asset].manifest.blocks}
        new = [one for one in after[asset].manifest.blocks if one.digest not in known]
        assert len(new) <= (most if known else 0)
        if change is not moved or asset == "documents":  # a move changes the order of rows only
            assert after[asset].table().equals(anew[asset].table())
            assert after[asset].manifest.blocks == anew[asset].manifest.blocks


def test_only_the_changed_block_is_parsed_and_cut(
    tmp_path: Path, computed: Callable[[str], dict[str, Artifact]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, parsed = list[int](), list[int]()
    write(tmp_path, TEXTS, CUT[0])
    computed("store")
    write(tmp_path, edited(TEXTS), CUT[0])

    def cutting(documents: pa.Table, cutter: Cutter, **options: Any) -> pa.Table:
        cut.append(len(documents))
        return cut_documents(documents, cutter, **options)

    def parsing(record: Record) -> tuple[Place, dict[str, Any]]:
        parsed.append(len(record[1]))
        return parse_object(record)

    monkeypatch.setattr("rag_assets.chunking.chunker.cut_documents", cutting)
    monkeypatch.setattr("rag_assets.sources.tables.parse_object", parsing)
    after = computed("store")["documents"]
    assert 1 <= len(cut) <= 2
    assert sum(cut) < 60
    assert 1 < len(parsed) < 60
    assert dict(column_values(after.table(), "document_id", "text")) == edited(TEXTS)


def test_a_bad_line_far_from_the_first_block_is_named(
    tmp_path: Path, computed: Callable[[str], dict[str, Artifact]]
) -> None:
    file = write(tmp_path, TEXTS, CUT[0]).folder / "documents.jsonl"
    written = file.read_text(encoding="utf-8")
    for line, problem in (
        ('{"id": "d001", "text": "Twice."}', ":241: `id`: document id 'd001' occurs twice"),
        ('{"id": "late", "text": 7}', ":241: `text`: is 7; must be a string"),
    ):
        file.write_text(f"{written}{line}\n", encoding="utf-8")
        with pytest.raises(DataError, match=re.escape(problem)):
            computed("store")


def test_semantic_chunking_says_that_it_is_not_by_blocks() -> None:
    semantic = SemanticChunking.model_validate({"strategy": "semantic"})
    recursive = RecursiveChunking(strategy="recursive")
    assert not semantic.by_blocks
    assert recursive.by_blocks
    assert not ParentChunking(strategy="parent", child=semantic, parent=recursive).by_blocks
    assert ParentChunking(strategy="parent", child=recursive, parent=recursive).by_blocks
