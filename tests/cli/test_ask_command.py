"""`rag-assets ask`: the hits of one question, without queries and labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import rag_assets
from rag_assets.errors import UsageError
from rag_assets.pipeline.plan import REUSE
from rag_assets.report.question_hits import Excerpt, excerpt, marks
from tests.beir_folder import write_beir
from tests.tiny_experiment import DOCUMENTS

Invoke = Callable[..., Result]

YAML = """
retrievers:
  again: {type: rrf, inputs: [bm25, shallow]}
  bm25: {type: bm25, analyzer: english}
  shallow: {type: bm25, analyzer: english, b: 0.0}
top_k: [1, 3]
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Documents, and nothing that is asked."""
    return write(tmp_path / "ferry", {**DOCUMENTS, "experiment.yaml": YAML})


def test_pages_without_queries_are_asked(invoke: Invoke, pages: Path, tmp_path: Path) -> None:
    question = "do dogs need tickets"
    result = invoke("ask", pages, question, "--store", tmp_path / "store", "--top-k", 2)
    assert result.exit_code == 0, result.output
    blocks = result.stdout.split("\n\n")
    # The cheap ones are first, whatever the order in the file.
    assert [block.split(",")[0] for block in blocks[:3]] == ["bm25", "shallow", "again"]
    assert "1 [1] fares.md 0-" in blocks[0]
    assert "A \u00bbdog\u00ab \u00bbneeds\u00ab a \u00bbticket\u00ab of 10 crowns." in blocks[0]
    assert "crowns" not in blocks[2]  # a text is shown once
    assert blocks[3].splitlines()[0].split() == ["passage", "bm25", "shallow", "again"]
    assert blocks[3].splitlines()[1].split()[-3:] == ["1", "1", "1"]
    assert not list((tmp_path / "store").glob("objects/*_runs/*"))
    assert not list((tmp_path / "store").glob("objects/queries/*"))


def test_the_hits_are_those_of_an_evaluation(tmp_path: Path) -> None:
    """What is asked is ranked as a query of the same text is."""
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": YAML})
    store = tmp_path / "store"
    hits = rag_assets.ask(folder, "lorries on the upper deck", top_k=3, store=store)
    evaluated = rag_assets.evaluate(folder, store)
    for found in hits.found:
        key = evaluated.run_keys(found.retriever)[3]
        rows = [row for row in evaluated.table(key).to_pylist() if row["query_id"] == "q3"]
        expected = [(row["rank"], row["score"], row["document_id"]) for row in rows]
        assert [(hit.rank, hit.score, hit.document_id) for hit in found.hits] == expected
    # The indexes that it left are those that an evaluation wants.
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "harbour"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    other = tmp_path / "other"
    rag_assets.ask(folder, "harbour", store=other)
    from rag_assets.api import plan

    steps = plan(folder, other).steps
    actions = {step.key.asset: step.action for step in steps}
    assert (actions["lexical_index"], actions["chunks"]) == (REUSE, REUSE)


def test_a_retriever_without_an_answer_stops_no_other(
    invoke: Invoke, pages: Path, tmp_path: Path
) -> None:
    (pages / "old.trec").write_text("q1 Q0 fares.md 1 1.0 t\n")
    yaml = "retrievers: {bm25: {type: bm25}, old: {type: run_file, path: old.trec}}\n"
    (pages / "experiment.yaml").write_text(yaml)
    options = ("--store", tmp_path / "store")
    result = invoke("ask", pages, "dog", *options)
    assert result.exit_code == 0
    assert "no answer: its rankings come from a file" in result.stdout
    assert "fares.md" in result.stdout
    result = invoke("ask", pages, "dog", *options, "--retriever", "bm25", "--format", "json")
    (row,) = json.loads(result.stdout)
    assert (row["retriever"], row["passage"], row["rank"]) == ("bm25", 1, 1)
    start, end = row["marks"][0]
    assert row["text"][start:end] == "dog"
    # The heading is the title, and no part of the text.
    text = DOCUMENTS["fares.md"].removeprefix("# Fares\n\n")
    assert row["text"] == text[row["start"] : row["end"]]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((" ",), "error: the question is blank; write one\n"),
        (("dog", "--retriever", "bm52"), "unknown retriever 'bm52'"),
    ],
)
def test_what_cannot_be_asked(
    words: tuple[str, ...], problem: str, invoke: Invoke, pages: Path, tmp_path: Path
) -> None:
    result = invoke("ask", pages, *words, "--store", tmp_path / "store")
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_in_python(pages: Path, tmp_path: Path) -> None:
    hits = rag_assets.ask(pages, "life jackets", ["bm25"], 2, store=tmp_path / "store")
    assert "      There is one \u00bblife\u00ab \u00bbjacket\u00ab for" in repr(hits)
    assert "[1] safety/jackets.md" in repr(hits)
    assert hits.to_arrow().column("rank").to_pylist() == [1, 2]
    (pages / "x.md").write_text("# <b>x</b>\n\nlife & limb <script>\n")
    html = rag_assets.ask(pages, "limb", ["bm25"], store=tmp_path / "store")._repr_html_()
    assert "<script>" not in html
    with pytest.raises(UsageError, match="unknown retriever"):
        rag_assets.ask(pages, "dog", ["none"], store=tmp_path / "store")


def test_words_that_only_ask_are_not_marked() -> None:
    text = "You do what you can to return a part."
    found = [text[a:b] for a, b in marks(text, "What do I do to return a part?", "standard")]
    assert found == ["return", "part"]
    assert marks("What is that", "what is that", "standard")  # nothing else is asked


def test_marks_are_of_words_as_the_analyzer_reads_them() -> None:
    text = "The dog and its DOGS, hot-dog; dogma."
    found = [text[a:b] for a, b in marks(text, "the dogs", "english")]
    assert found == ["dog", "DOGS", "dog"]


def test_an_excerpt_is_where_most_marked_words_are() -> None:
    text = f"dog {'x ' * 300}a dog\n\nbarks at a  dog {'y ' * 300}"
    shown = excerpt(text, marks(text, "dog barks", "standard"), 100)
    assert [shown.text[a:b] for a, b in shown.marks] == ["dog", "barks", "dog"]
    assert "a dog barks at a dog" in shown.text
    assert shown.text.startswith("... ")
    assert shown.text.endswith(" ...")
    assert excerpt("short", [], 100) == Excerpt("short", [])
