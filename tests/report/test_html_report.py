"""The HTML report, and texts in it."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import rag_assets
from rag_assets.analysis.result import EvaluationResult
from rag_assets.report.html import REPORT_FILE, write_report
from rag_assets.sheets.environment import templates
from tests.beir_folder import HOSTILE_TAG, write_beir

YAML = (
    "retrievers:\n  a-b.c: {type: bm25}\n  steep: {type: bm25, k1: 9, b: 0}\n"
    "  both: {type: rrf, inputs: [a-b.c, steep]}\n"
    "top_k: [1, 10]\nmetrics: [mrr, ndcg, precision, recall@5]\n"
)


class Page(HTMLParser):
    """Collects tags, attributes, scripts and tables; small figures in cells are left out."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.tables: list[list[list[str]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._in_cell = self._in_script = False
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
        elif tag == "small":
            self._in_cell = False
        elif tag == "script":
            self.scripts.append((dict(attrs), ""))
            self._in_script = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._in_cell = False
        elif tag == "script":
            self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] = (self.scripts[-1][0], data)
        elif self._in_cell:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    root = tmp_path_factory.mktemp("report")
    folder = write_beir(root / "<img src=x> & 'co'", {"experiment.yaml": YAML})
    return rag_assets.evaluate(folder, store=root / "store")


@pytest.fixture(scope="module")
def text(result: EvaluationResult) -> str:
    return write_report(result, has_explorer=True).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_needs_nothing_else_and_runs_two_scripts(
    text: str, page: Page, result: EvaluationResult
) -> None:
    own = re.sub(r'<script type="text/plain" id="plotly">.*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//\w|url\(|@import", own)
    assert not set(page.tags) & {"link", "img", "iframe", "object", "base"}
    assert not set(page.attributes) & {"src", "srcset", "onload", "onerror", "onclick"}
    assert {href[0] for href in page.attributes["href"]} == {"#"}
    assert page.tags[:2] == ["html", "head"]
    assert len(text.encode()) < 6_000_000
    (policy,) = (one for one in page.attributes["content"] if "script-src" in one)
    assert policy.startswith("default-src 'none';")
    assert "unsafe-inline" not in policy.split("script-src")[1]
    assert policy.count("'sha256-") == 2
    run = [attributes for attributes, _ in page.scripts if not attributes]
    assert len(run) == 1, "all other blocks are data"
    assert str(Path(result.evaluation.source).parent.parent) not in text


def test_text_from_data_is_escaped_and_json(text: str, page: Page) -> None:
    assert HOSTILE_TAG not in text
    assert HOSTILE_TAG in unescape(text)
    assert "<img" not in text.replace("<img>", "")
    (slices,) = (t for t in page.tables if t[0][0] == "tag")
    assert [row[0] for row in slices[1:]] == [HOSTILE_TAG, "safety", "time"]
    blocks = {a["id"]: text for a, text in page.scripts if a.get("type") == "application/json"}
    assert set(blocks) == {"data-charts", "data-explorer"}
    assert HOSTILE_TAG in json.loads(blocks["data-explorer"])["tags"]


def test_the_page_of_an_evaluation_has_the_tables_alone(
    result: EvaluationResult, tmp_path: Path
) -> None:
    file = result.root / REPORT_FILE
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 100_000
    assert "<script" not in text
    assert "script-src 'none'" in text
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(re.findall(r'id="([^"]+)"', text))
    assert not re.search("<details[^>]* id=", text), "a link opens what its target is within"
    board = Page(text).tables[0]
    assert {cells[1] for cells in board[1:]} == set(result.retrievers)
    written = file.stat().st_mtime_ns
    assert write_report(result).stat().st_mtime_ns == written
    file = write_report(result, tmp_path / "page.html")
    write_report(result, file, has_explorer=True)
    assert "<script" in file.read_text(encoding="utf-8"), "the large page is another one"


def test_a_key_comes_before_a_method_and_an_unknown_name_is_an_error() -> None:
    template = templates().from_string("{{ s.items }} {{ s.get('items') }} {{ s.other }}")
    assert template.render(s={"items": "on these", "other": 1}) == "on these on these 1"
    with pytest.raises(UndefinedError, match="other"):
        template.render(s={"items": "on these"})
