"""The HTML report as a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from rag_assets.analysis.result import EvaluationResult
from rag_assets.pipeline.history import History
from tests.browser.conftest import DESKTOP, HOSTILE, PHONE, Opened, report_of
from tests.tiny_experiment import JUDGMENTS, Tiny

pytestmark = pytest.mark.browser

Report = tuple[EvaluationResult, Path]

COLUMN = """([table, column]) => [...document.querySelector(table).tBodies[0].rows]
    .map((row) => row.cells[column].innerText.split('\\n')[0].replace(/[^\\w.-]/g, ''))"""

CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim();
    const full = hex.length === 4 ? [...hex.slice(1)].map((c) => c + c).join('') : hex.slice(1);
    const [r, g, b] = [0, 2, 4].map((n) => parseInt(full.slice(n, n + 2), 16) / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = ['ink', 'soft', 'link', 'good', 'bad'];
  const drawn = ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'above', 'below'];
  return {
    texts: Math.min(...texts.flatMap((name) => [ratio(name, 'page'), ratio(name, 'panel')]),
                    ratio('mark-ink', 'mark')),
    drawn: Math.min(...drawn.map((name) => ratio(name, 'page'))),
  };
}"""


@pytest.fixture(scope="module")
def desktop(browser: Browser, tiny_report: Report) -> Opened:
    opened = Opened(browser, tiny_report[1], viewport=DESKTOP, reduced_motion="reduce")
    opened.see_all()
    return opened


def test_nothing_goes_wrong_and_numbers_and_charts_are_those_of_the_leaderboard(
    desktop: Opened, tiny_report: Report
) -> None:
    assert desktop.page.locator(".chart svg.main-svg").count() >= 5
    assert desktop.wrong == []
    result, _ = tiny_report
    board = {row["retriever"]: row for row in result.leaderboard.to_pylist() if row["top_k"] == 5}
    table = "[data-top-k='5'] table.board"
    names = desktop.page.evaluate(COLUMN, [table, 1])
    shown = desktop.page.evaluate(COLUMN, [table, 2])
    assert shown == [f"{board[name]['ndcg']:.4f}" for name in names]
    assert set(names) == set(board)
    rows = [row for row in tiny_report[0].leaderboard.to_pylist() if row["top_k"] == 5]
    read = "document.getElementById('chart-bars').data.map((t) => [t.name, t.y[t.x.indexOf('@5')]])"
    drawn = dict(desktop.page.evaluate(read))
    assert drawn == {row["retriever"]: pytest.approx(row["ndcg"], abs=1e-6) for row in rows}
    desktop.page.select_option("#chart-metric", "mrr")
    drawn = dict(desktop.page.evaluate(read))
    assert drawn == {row["retriever"]: pytest.approx(row["mrr"], abs=1e-6) for row in rows}


def test_a_heading_sorts_with_the_keyboard(desktop: Opened) -> None:
    table = "[data-top-k='5'] table.board"
    heading = desktop.page.locator(f"{table} thead th").nth(2)
    heading.locator("button").focus()
    desktop.page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    shown = [float(text) for text in desktop.page.evaluate(COLUMN, [table, 2])]
    assert shown == sorted(shown, reverse=True)
    desktop.page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    shown = [float(text) for text in desktop.page.evaluate(COLUMN, [table, 2])]
    assert shown == sorted(shown)
    desktop.page.locator(f"{table} thead th").nth(1).locator("button").click()
    names = desktop.page.evaluate(COLUMN, [table, 1])
    assert names == sorted(names)


def test_filters_leave_the_queries_that_they_name(desktop: Opened, tiny_report: Report) -> None:
    page = desktop.page
    values = {
        name: dict(zip(table["query_id"].to_pylist(), table["ndcg"].to_pylist(), strict=True))
        for name, table in tiny_report[0].query_metrics(5).items()
    }
    left, right = "bm25-whole", "bm25"
    page.select_option("#left", label=left)
    page.select_option("#right", label=right)
    for outcome, sign in (("right", 1), ("left", -1), ("tie", 0)):
        page.select_option("#outcome", outcome)
        gained = {q: values[right][q] - values[left][q] for q in values[left]}
        wanted = {q for q, d in gained.items() if (d > 1e-9) - (d < -1e-9) == sign}
        assert set(page.locator("#query-list .id").all_inner_texts()) == wanted
    page.select_option("#outcome", "all")
    page.select_option("#tag", label="safety")
    assert set(page.locator("#query-list .id").all_inner_texts()) == {"q3", "q4"}
    page.fill("#search", "FIRE")
    assert page.locator("#query-list .id").all_inner_texts() == ["q4"]
    page.fill("#search", "nothing like it")
    assert "No query matches" in page.locator("#query").inner_text()
    page.fill("#search", "")
    page.select_option("#tag", label="all")
    assert page.locator("#query-list .id").count() == 6


def test_evidence_is_marked_and_arrows_go_through_the_list(desktop: Opened) -> None:
    page = desktop.page
    page.locator("#query-list button", has_text="fire on the car deck").click()
    marks = set(page.locator("#query mark").all_inner_texts())
    assert marks == {"A fire on the car deck is fought with foam."}
    assert page.locator("#query .hit.relevant .badge").count() == 2, "one a side"
    first = page.locator("#query-list button").first
    first.click()
    page.keyboard.press("ArrowDown")
    assert page.locator("#query-list button").nth(1).get_attribute("aria-current") == "true"
    assert first.get_attribute("aria-current") is None


def test_phones_need_no_scrolling_sideways(
    browser: Browser, tiny_report: Report, history_report: Report
) -> None:
    for (_, file), scheme in ((tiny_report, "light"), (history_report, "dark")):
        opened = Opened(browser, file, viewport=PHONE, color_scheme=scheme)
        opened.see_all()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 380
        assert opened.wrong == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_colours_follow_the_scheme_and_can_be_read(desktop: Opened, scheme: str) -> None:
    """WCAG 2.2: 4.5 to 1 for texts, 3 to 1 for what is drawn."""
    desktop.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    found = desktop.page.evaluate(CONTRAST)
    assert found["texts"] >= 4.5
    assert found["drawn"] >= 3
    background = desktop.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    first = "getComputedStyle(document.documentElement).getPropertyValue('--c0').trim()"
    desktop.until(f"document.getElementById('chart-bars').data[0].marker.color === {first}")
    assert desktop.wrong == []


def test_a_query_has_an_address(browser: Browser, tiny_report: Report) -> None:
    opened = Opened(browser, tiny_report[1], viewport=DESKTOP)
    buttons = opened.page.locator("#query-list button")
    buttons.nth(2).click()
    address = opened.page.url
    name = buttons.nth(2).locator(".id").inner_text()
    assert address.endswith(f"#query={name}")
    opened.page.goto("about:blank")
    opened.page.goto(address)
    chosen = opened.page.locator("#query-list button[aria-current] .id")
    assert chosen.inner_text() == name
    opened.page.fill("#search", "a text that no query has, so that the filter hides all of them")
    for other in ("q1", "q2"):
        opened.page.evaluate(f"location.hash = '#query={other}'")
        chosen.filter(has_text=other).wait_for()
    opened.page.evaluate("location.hash = '#query=q99'")
    opened.page.locator("#explorer-count", has_text="Query q99 is not on this page.").wait_for()
    assert opened.wrong == []


def test_a_link_to_a_folded_part_opens_it(browser: Browser, tiny_report: Report) -> None:
    page = Opened(browser, tiny_report[1], viewport=DESKTOP).page
    assert not page.locator("#provenance").is_visible()
    for name in ("stages", "provenance"):
        page.goto(f"{page.url.partition('#')[0]}#{name}")
        page.locator(f"#{name}").wait_for()


def test_a_retriever_alone_is_compared_with_nothing(browser: Browser, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    page = Opened(browser, report_of(tiny.write())[1], viewport=DESKTOP).page
    assert page.locator("#explorer-count").inner_text() == "6 of 6 queries"
    assert page.locator("#left, #right").locator("visible=true").count() == 0
    assert "comparison below" not in page.locator("#charts").inner_text()


def test_charts_have_the_width_of_paper_where_they_are_printed(
    browser: Browser, tiny_report: Report
) -> None:
    opened = Opened(browser, tiny_report[1], viewport=DESKTOP)
    opened.see_all()
    opened.page.emulate_media(media="print")
    opened.page.wait_for_timeout(300)
    widths = "() => [...document.querySelectorAll('.chart .main-svg')].map((s) => s.clientWidth)"
    assert set(opened.page.evaluate(widths)) == {640}
    opened.page.emulate_media(media="screen")
    opened.page.wait_for_timeout(300)
    assert max(opened.page.evaluate(widths)) > 640


def test_hostile_texts_are_shown_and_do_nothing(browser: Browser, hostile_report: Path) -> None:
    opened = Opened(browser, hostile_report, viewport=DESKTOP)
    opened.see_all()
    page = opened.page
    buttons = page.locator("#query-list button")
    assert buttons.count() == len(HOSTILE)
    for number in range(len(HOSTILE)):
        buttons.nth(number).click()
    shown = page.locator("#query").inner_text() + page.locator("#query-list").inner_text()
    assert HOSTILE[0] in shown
    opened.shows_hostile_texts_and_runs_none()
    assert hostile_report.stat().st_size < 6_000_000


def test_answers_are_side_by_side_with_their_contexts(
    browser: Browser, answers_report: Report
) -> None:
    opened = Opened(browser, answers_report[1], viewport=DESKTOP, reduced_motion="reduce")
    opened.see_all()
    page = opened.page
    assert page.locator("#answers h3").first.inner_text() == "Answers"
    page.locator("#query-list button", has_text="fire on the car deck").click()
    boxes = page.locator("#query .answer")
    assert boxes.locator("h4").all_inner_texts() == ["official@-", "copied@3", "gold@-"]
    assert boxes.nth(0).locator(".said").inner_text().startswith(HOSTILE[3][:40])
    assert "with foam" in page.locator("#query .answered > p").inner_text()
    boxes.nth(2).locator("summary").click()
    mark = "A fire on the car deck is fought with foam."
    assert boxes.nth(2).locator("mark").all_inner_texts() == [mark]
    for button in page.locator("#query-list button").all():
        button.click()
    opened.shows_hostile_texts_and_runs_none()


def test_a_script_in_the_page_would_be_refused(desktop: Opened) -> None:
    """Were a text not escaped, the page's policy would still let nothing of it run."""
    page = desktop.page
    page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.attacked = 7';
          document.body.append(script);
          const button = document.createElement('button');
          button.setAttribute('onclick', 'window.attacked = 8');
          document.body.append(button);
          button.click();
        }"""
    )
    assert page.evaluate("window.attacked") is None
    refused, desktop.wrong[:] = list(desktop.wrong), []
    assert len(refused) == 2
    assert all("Content Security Policy" in text for text in refused)


HISTORY = """() => Object.fromEntries(document.getElementById('chart-history').data.map((trace) =>
    [trace.name, trace.x.map((x, n) => [x, trace.y[n] ?? null])]))"""


@pytest.fixture(scope="module")
def over_time(browser: Browser, history_report: Report) -> Opened:
    opened = Opened(browser, history_report[1], viewport=DESKTOP, reduced_motion="reduce")
    opened.see_all()
    return opened


def means(report: Report, metric: str, top_k: int) -> dict[str, list[float | None]]:
    """The rows of the history, without the evaluation in which nothing changed."""
    rows = History(report[0].root, None).metric(metric, top_k)
    ids = History(report[0].root, None).ids()
    found = {(row["retriever"], row["evaluation_id"]): row["value"] for row in rows}
    kept = [one for number, one in enumerate(ids) if number != 2]
    return {name: [found.get((name, one)) for one in kept] for name, _ in found}


def test_the_history_is_drawn_breaks_where_labels_changed_and_says_so(
    over_time: Opened, history_report: Report
) -> None:
    wanted = means(history_report, "ndcg", 5)
    drawn = over_time.page.evaluate(HISTORY)
    assert set(drawn) == {"bm25-whole", "tfidf", "bm25"}  # okapi is there no more
    for name, points in drawn.items():
        known: dict[float, Any] = {2.5: None}
        values = enumerate(wanted[name], 1)
        known |= {n: pytest.approx(v, abs=1e-6) for n, v in values if v is not None}
        assert dict(points) == known
    shapes = over_time.page.evaluate(
        "document.getElementById('chart-history').layout.shapes.map((s) => [s.x0, s.line.dash])"
    )
    assert shapes == [[2.5, "dot"]], "the break"
    assert over_time.wrong == []
    rows = over_time.page.locator("#history table tbody tr").all_inner_texts()
    points = [row for row in rows if re.match(r"20\d\d-", row)]
    assert len(points) == 4, "the evaluation without change is no point"
    assert "retriever tfidf added" in points[0]
    assert "retriever okapi removed" in points[0]
    assert "labels changed" in points[1]
    assert "bm25.k1 1.2 -> 0.1" in points[2]


def test_one_evaluation_is_a_sentence(desktop: Opened) -> None:
    assert "nothing to draw yet" in desktop.page.locator("#history").inner_text()
    assert desktop.page.locator("#chart-history").count() == 0


LONG = "## Rules for **dogs**\n\n" + "\n".join(
    [f"- Rule {n}: see [page {n}](rules/{n}.md)." for n in range(8)]
    + ["", "A *dog* pays **10 crowns**, `always`.", ""]
    + [f"Line {n} of what comes behind it." for n in range(8)]
)


def test_passages_are_as_they_are_stored(browser: Browser, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "markdown")
    tiny.config["retrievers"] = {
        name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole")
    }
    tiny.write()
    tiny.write_document("fares.md", f"# Fares\n\n{LONG}\n")
    judged = [one for one in JUDGMENTS if one["query_id"] != "q1"]
    quote = {"query_id": "q1", "doc_id": "fares.md", "quote": "A *dog* pays **10 crowns**"}
    tiny.write_rows("judgments.jsonl", [quote, *judged])
    opened = Opened(browser, report_of(tiny)[1], viewport=DESKTOP, reduced_motion="reduce")
    page = opened.page
    page.select_option("#left", label="bm25-whole")
    page.locator("#query-list button", has_text="ticket for a dog").click()
    assert set(page.locator("#query .side mark").all_inner_texts()) == {quote["quote"]}
    hit = page.locator("#query .side .hit", has_text="A *dog* pays").first
    assert "Rules for **dogs**" in hit.locator("p").inner_text()
    assert opened.wrong == []
