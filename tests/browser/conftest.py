"""One browser and one evaluated experiment for all tests in a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from rag_assets.analysis.result import EvaluationResult
from rag_assets.pipeline.evaluations import ANCHOR
from rag_assets.report.html import write_report
from rag_assets.store.atomic import write_text
from tests.answers.answering import CONFIG as ANSWERING
from tests.answers.answering import GOLDS
from tests.tiny_experiment import QUERIES, Tiny

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=380, height=800)

ATTACK = "<script>window.attacked = 1</script>"
HOSTILE = (
    f"{ATTACK}</script><script>window.attacked = 2</script>",
    '"><img src=x onerror="window.attacked = 3">',
    "javascript:window.attacked=4 <svg onload='window.attacked = 5'>",
    "\u202egnp.exe\u202c \u2066isolated\u2069 \u200fright to left\u2028new\u2029lines",
    "{{ 7 * 7 }} ${7 * 7} <!-- --> ]]> &lt;b&gt; <b>bold</b>",
    f"<a onclick='window.attacked = 6'>{'x' * 1_000_000}</a>",
)


def browser_program() -> str:
    """Return the browser of this machine; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(NAMES)})")
    return program


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser; skipped where there is none.

    It ends with its module: playwright's event loop would be in the way of those that Dagster runs.
    """
    program = browser_program()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield launched
        launched.close()


class Opened:
    """A page, and all that went wrong in it or was asked of the network."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        context = browser.new_context(**options)
        self.wrong: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        self.page.on("request", self._asked)
        self.page.goto(file.as_uri())

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.wrong.append(request.url)

    def see_all(self) -> None:
        for name in ("charts", "answers", "explorer", "history"):
            for section in self.page.locator(f"#{name}").all():
                section.scroll_into_view_if_needed()
        self.until("[...document.querySelectorAll('.chart')].every((o) => o.querySelector('svg'))")

    def shows_hostile_texts_and_runs_none(self) -> None:
        """Neither a desktop nor a phone has to be scrolled sideways."""
        for viewport in (DESKTOP, PHONE):
            self.page.set_viewport_size(viewport)
            self.until(f"document.documentElement.scrollWidth === {viewport['width']}")
        assert self.page.evaluate("window.attacked") is None
        assert self.page.locator("img").count() == 0
        assert self.wrong == []

    def until(self, expression: str) -> None:
        """Wait; playwright's own way evaluates strings in the page, which its policy forbids."""
        for _ in range(1_000):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        pytest.fail(f"never true: {expression}")


def report_of(tiny: Tiny) -> tuple[EvaluationResult, Path]:
    """Evaluate an experiment, and write its report."""
    tiny.run()
    result = EvaluationResult(tiny.artifacts, tiny.snapshot())
    return result, write_report(result, has_explorer=True)


@pytest.fixture(scope="session")
def tiny_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvaluationResult, Path]:
    return report_of(Tiny(tmp_path_factory.mktemp("browser")).write())


@pytest.fixture(scope="session")
def history_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvaluationResult, Path]:
    """Four states: the second is the anchor, and the labels of the third are others."""
    tiny = Tiny(tmp_path_factory.mktemp("history"))
    tiny.config["top_k"] = [1, 3, 5]
    tiny.config["retrievers"] = {
        name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole", "okapi")
    }
    tiny.write().run()
    tiny.snapshot()
    tiny.configure("bm25", k1=0.1, b=0.0)
    tiny.run()
    anchor = tiny.snapshot()
    write_text(tiny.artifacts / ANCHOR, anchor.evaluation_id)
    tiny.snapshot()
    tiny.replace("judgments.jsonl", "A dog needs a ticket of 10 crowns.", "Children under six")
    tiny.run()
    tiny.snapshot()
    del tiny.config["retrievers"]["okapi"]
    tiny.configure("tfidf", type="tfidf", chunking="whole")
    return report_of(tiny)


@pytest.fixture(scope="session")
def answers_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvaluationResult, Path]:
    """Answers from a file, among them hostile ones, and sentences copied from contexts."""
    tiny = Tiny(tmp_path_factory.mktemp("answers_page")).write()
    rows = [{**row, "answers": [*GOLDS[row["query_id"]], ATTACK]} for row in QUERIES]
    tiny.write_rows("queries.jsonl", rows)
    given = dict(zip((row["query_id"] for row in QUERIES), HOSTILE, strict=True))
    (tiny.folder / "predictions.json").write_text(json.dumps(given), encoding="utf-8")
    tiny.config["generators"] = {**ANSWERING["generators"], "sentence": {"type": "extractive"}}
    tiny.config["answers"] = {
        "official": {"generator": "predicted"},
        "copied": {"generator": "sentence", "retriever": "bm25", "top_k": [3]},
        "gold": {"generator": "sentence", "context": "gold", "chunking": "parts"},
    }
    tiny.write_config()
    return report_of(tiny)


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny = Tiny(tmp_path_factory.mktemp("hostile"))
    tiny.config |= {"dataset": {"format": "beir"}, "baseline": "one"}
    tiny.config["retrievers"] = {
        "one": {"type": "bm25", "chunking": "whole", "analyzer": "standard"},
        "two": {"type": "bm25", "chunking": "whole", "analyzer": "standard", "k1": 9, "b": 0},
    }
    numbered = [(f"{text[:300]} {n}", text) for n, text in enumerate(HOSTILE)]
    tiny.folder.mkdir(parents=True)
    documents = [{"_id": i, "title": i, "text": f"ferry {text} ferry"} for i, text in numbered]
    tiny.write_rows("corpus.jsonl", documents)
    queries = [
        {"_id": i, "text": f"{text[:2000]} ferry", "metadata": {"tags": [i]}}
        for i, text in numbered
    ]
    tiny.write_rows("queries.jsonl", queries)
    lines = ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i, _ in numbered)]
    tiny.write_document("qrels/test.tsv", "\n".join(lines))
    tiny.write_config()
    return report_of(tiny)[1]
