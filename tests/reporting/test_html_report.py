from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rag_assets
from rag_assets.reporting.html import render, write_report
from rag_assets.reporting.result import EvaluationResult
from tests.beir_folder import HOSTILE_TAG, write_beir

YAML = (
    "retrievers:\n  a-b.c: {type: bm25}\n  steep: {type: bm25, k1: 9, b: 0}\n"
    "  both: {type: rrf, inputs: [a-b.c, steep]}\n"
    "top_k: [1, 10]\nmetrics: [mrr, ndcg, precision, recall@5]\n"
)


class Page(HTMLParser):
    """Collects the tags, the attributes and the tables of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.tables: list[list[list[str]]] = []
        self._in_cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    root = tmp_path_factory.mktemp("report")
    folder = write_beir(root / "<img src=x> & 'co'", {"experiment.yaml": YAML})
    return rag_assets.evaluate(folder, store=root / "store")


@pytest.fixture(scope="module")
def text(result: EvaluationResult) -> str:
    return (result.root / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_needs_nothing_else(text: str, page: Page) -> None:
    assert not re.search(r"https?:|//\w|url\(|@import", text)
    assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "base"}
    assert not set(page.attributes) & {"src", "href", "srcset", "onload", "onerror"}
    assert page.tags[:2] == ["html", "head"]


def test_text_from_data_is_escaped(text: str, page: Page) -> None:
    assert HOSTILE_TAG not in text
    assert HOSTILE_TAG in unescape(text)
    assert "<img" not in text
    (slices,) = (t for t in page.tables if t[0][0] == "tag")
    assert [row[0] for row in slices[1:]] == [HOSTILE_TAG, "safety", "time"]


def test_numbers_are_those_of_the_leaderboard(result: EvaluationResult, page: Page) -> None:
    board = {(row["retriever"], row["top_k"]): row for row in result.leaderboard.to_pylist()}
    tables = [t for t in page.tables if t[0][-1] == "ms/query"]
    assert len(tables) == 3, "top_k 10 first, then 1 and 5"
    measures = tables[0][0][1:-7]
    assert measures == ["mrr", "ndcg", "recall", "precision"]
    for table, top_k in zip(tables, (10, 1, 5), strict=True):
        assert {cells[0] for cells in table[1:]} == {"a-b.c", "steep", "both"}
        for cells in table[1:]:
            row = board[cells[0], top_k]
            values = [row[name] for name in measures]
            assert cells[1:5] == ["" if v is None else f"{v:.4f}" for v in values]
            assert table[0][5] == f"tokens@{top_k}"
            assert cells[5] == f"{row['tokens']:.0f}"
            assert cells[6:10] == ["0", str(row["n_empty"]), "0", f"{100 * row['judged']:.0f} %"]
            assert cells[10] == str(row["n_tied"])
            assert float(cells[11]) >= 0


def test_primary_metric_over_all_cut_offs(result: EvaluationResult, page: Page) -> None:
    (curve,) = (t for t in page.tables if t[0][1:] == ["@1", "@5", "@10"])
    board = {(row["retriever"], row["top_k"]): row for row in result.leaderboard.to_pylist()}
    for name, first, fifth, tenth in curve[1:]:
        assert (first, fifth, tenth) == (
            f"{board[name, 1]['ndcg']:.4f}",
            "",
            f"{board[name, 10]['ndcg']:.4f}",
        )


def test_every_artifact_is_named(result: EvaluationResult, page: Page) -> None:
    (artifacts,) = (t for t in page.tables if t[0][0] == "partition")
    assert [cells[3] for cells in artifacts[1:]] == [
        entry.digest[:16] for entry in result.evaluation.entries
    ]


def test_the_best_is_the_first(result: EvaluationResult, text: str) -> None:
    assert "<strong>incomplete</strong>" not in text
    best = result.leaderboard.to_pylist()[0]["retriever"]
    assert f"<strong>{best}</strong> has the highest ndcg@10" in text


def test_rendering_is_repeatable(result: EvaluationResult, text: str) -> None:
    assert render(result) == text
    assert write_report(result) == result.root / "report.html"


def test_it_is_written_again_on_each_evaluation(tmp_path: Path) -> None:
    yaml = "retrievers: {bm25: {type: bm25}}\n"
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": yaml})
    first = rag_assets.evaluate(folder, store=tmp_path / "store")
    report = first.root / "report.html"
    assert first.evaluation.evaluation_id in report.read_text(encoding="utf-8")
    second = rag_assets.evaluate(folder, store=tmp_path / "store")
    text = report.read_text(encoding="utf-8")
    assert second.evaluation.evaluation_id in text
    assert first.evaluation.evaluation_id not in text


def test_a_partial_evaluation_says_so(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": YAML})
    done = rag_assets.evaluate(folder, tmp_path / "store", retrievers=["steep"], top_k=[1])
    text = (done.root / "report.html").read_text(encoding="utf-8")
    assert [row["retriever"] for row in done.leaderboard.to_pylist()] == ["steep"]
    assert "<strong>incomplete</strong>" in text
