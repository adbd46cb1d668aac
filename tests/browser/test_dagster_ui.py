"""The real Dagster UI over an evaluated experiment, looked at by a browser.

With ``RAG_ASSETS_SCREENSHOTS=<folder>`` it keeps what it saw, as the pages of docs/ show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from rag_assets.assets.names import REPORTS
from rag_assets.pipeline.evaluation_names import EvaluationNames, register
from tests.browser.conftest import browser_program
from tests.browser.dagster_page import VIEW, DagsterPage, errors_in
from tests.dagster_daemon import ROOT, webserver
from tests.dagster_state import evaluate_now
from tests.tiny_experiment import QUERIES, Tiny

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STRANGE = ["the weather on mars", "earnings of the bakery"]


def ask(tiny: Tiny, words: list[str]) -> None:
    """Ask enough questions for a distribution; the first six have the labels."""
    more = [{"query_id": f"w{n:02}", "text": text} for n, text in enumerate(words)]
    tiny.write_rows("queries.jsonl", [*QUERIES, *more])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The UI of an experiment that was evaluated, pinned and evaluated again; its address.

    Dagster's instance is configured as the one of a checkout is.
    """
    browser_program()
    tiny = Tiny(tmp_path_factory.mktemp("ui") / "ferry")
    tiny.config["name"] = "ferry"
    tiny.config["retrievers"].pop("okapi")
    tiny.config["retrievers"].pop("shallow")
    tiny.config |= {"top_k": [1, 5], "measurements": {"latency_sample": 0}}
    tiny.write()
    words = [f"{query['text']} {word}" for query in QUERIES for word in ("please", "now", "today")]
    ask(tiny, words)
    home = tiny.settings.dagster_home
    home.mkdir(parents=True)
    shipped = (ROOT / "dagster.yaml").read_text(encoding="utf-8")
    (home / "dagster.yaml").write_text(shipped.replace("data/store/dagster", str(home)))
    tiny.run()
    tiny.snapshot()
    EvaluationNames(tiny.settings, tiny.artifacts.name).pin("latest")
    ask(tiny, [*(f"{STRANGE[n % 2]} {n}" for n in range(10)), *words[10:]])
    evaluate_now(tiny)
    register(tiny.pipeline().experiment, tiny.settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(REPORTS, "http://127.0.0.1:9")
        with webserver(tiny) as address:
            yield address


@pytest.fixture
def ui(served: str, browser: Browser) -> Iterator[DagsterPage]:
    """A new page, in which nothing may go wrong."""
    kept = os.environ.get("RAG_ASSETS_SCREENSHOTS")
    page = DagsterPage(browser, served, Path(kept) if kept else None)
    yield page
    page.page.context.close()


def test_the_graph(ui: DagsterPage) -> None:
    page = ui.open("/asset-groups")
    page.get_by_text(re.compile(r"^\d+ assets")).first.wait_for()
    page.get_by_label("unfold_more").first.click()
    ui.picture("groups")
    page.get_by_text(re.compile(r"^\d+ assets")).first.wait_for(state="hidden")
    ui.open("/assets/ferry/leaderboard", view="lineage", lineageScope="upstream", lineageDepth="9")
    ui.sees("documents", "lexical_runs", "metrics_summary", "leaderboard")
    ui.picture("graph")
    assert ui.wrong == []


def test_a_partition_of_the_grid(ui: DagsterPage) -> None:
    ui.open("/assets/ferry/metrics", view="partitions", partition="bm25|5")
    ui.sees("Materialized (6)", "Missing (0)", "hybrid", "bm25|5", "hit_rate", "ndcg", "made_from")
    ui.picture("partitions")
    assert ui.wrong == []


def test_a_materialization(ui: DagsterPage) -> None:
    ui.open("/assets/ferry/leaderboard", view="events")
    ui.sees("Metadata", "winner", "position", "bm25-whole", "report")
    ui.picture("leaderboard")
    assert ui.wrong == []


def test_who_wins_stands_above_the_columns(ui: DagsterPage) -> None:
    page = ui.open("/assets/ferry/leaderboard")
    ui.sees("winner")
    words = page.get_by_text(re.compile("No winner yet|^Use ")).first
    words.wait_for()
    box = words.bounding_box()
    assert box is not None
    assert box["y"] < VIEW["height"]
    ui.picture("winner")
    assert ui.wrong == []


def test_the_ui_links_to_the_report(ui: DagsterPage) -> None:
    page = ui.open("/assets/ferry/leaderboard")
    link = page.get_by_role("link", name="Open the report")
    assert link.get_attribute("href") == "http://127.0.0.1:9/ferry/report.html"


def test_a_check(ui: DagsterPage) -> None:
    page = ui.open("/assets/ferry/lexical_runs", view="checks", checkDetail="drift")
    ui.sees("drift", "psi", "far_share", "Failed")
    assert page.get_by_text("the score of the best hit is distributed otherwise").is_visible()
    assert page.get_by_text("42% of the queries are far from the corpus").is_visible()
    ui.picture("check")
    assert ui.wrong == []


def test_plots(ui: DagsterPage) -> None:
    page = ui.open("/assets/ferry/metrics")
    page.get_by_role("button", name="Plots").click()
    ui.sees("hit_rate", "mrr", "ndcg")
    page.locator("canvas").nth(3).wait_for()
    page.get_by_text("ndcg", exact=True).last.scroll_into_view_if_needed()
    ui.picture("plots")
    assert ui.wrong == []


def test_what_goes_wrong_is_noticed(ui: DagsterPage, served: str) -> None:
    page = ui.open("/assets/ferry/metrics")
    ui.sees("Checks")
    broken = '{"data": null, "errors": [{"message": "made to fail"}]}'
    page.route("**/graphql*", lambda r: r.fulfill(content_type="application/json", body=broken))
    page.get_by_text("Checks", exact=True).first.click()
    page.locator("[data-sonner-toast]").first.wait_for()
    page.evaluate("setTimeout(() => { throw new Error('thrown'); })")
    page.evaluate("fetch('http://127.0.0.1:9/elsewhere').catch(() => 0)")
    kinds = {text.split(":")[0] for text in ui.wrong}
    assert {"toast", "graphql", "page error", "asked http"} <= kinds
    answer = {"data": {"asset": [{"__typename": "PythonError", "message": "of the server"}]}}
    assert errors_in(answer) == ["of the server"]
