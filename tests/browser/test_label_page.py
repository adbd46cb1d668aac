"""The labelling page as people use it: keys, mouse, a phone, the dark, and hostile texts."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from rag_assets.labels.logs import LoggedJudgment, marks_file, read_judgments, read_marks
from tests.browser.conftest import HOSTILE, OPTIONS, PHONE, browser_program
from tests.browser.test_report import CONTRAST
from tests.labels.page.served import QUESTIONS, TEXTS, Client, serving, session_of

pytestmark = pytest.mark.browser

DESKTOP = {"width": 1100, "height": 900}
KILLS = int(os.environ.get("RAG_ASSETS_LABEL_KILLS", "3"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def client(log: Path) -> Iterator[Client]:
    with serving(session_of(log)) as client:
        yield client


class Labelling:
    """An opened page, what went wrong in it, and which addresses it asked for."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.page: Page = browser.new_context(**{"viewport": DESKTOP, **options}).new_page()
        self.page.set_default_timeout(20_000)
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.answer = "q1"
        self.page.on("dialog", lambda dialog: dialog.accept(self.answer))
        self.page.on(
            "request",
            lambda one: (
                None if one.url.startswith((address, "data:")) else self.wrong.append(one.url)
            ),
        )
        self.page.goto(address)
        self.page.wait_for_selector("main:not([hidden])")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def says(self, text: str) -> None:
        self.page.locator("#said", has_text=text).wait_for()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).text_content() or ""

    def close(self) -> None:
        self.page.context.close()


@pytest.fixture
def opened(browser: Browser, client: Client) -> Iterator[Labelling]:
    opened = Labelling(browser, client.address)
    yield opened
    opened.close()


def passage(line: LoggedJudgment) -> str:
    return TEXTS[line.item.document_id]


def test_keys_alone_grade_skip_and_undo(opened: Labelling, log: Path) -> None:
    assert opened.page.evaluate("document.activeElement.id") == "question"
    for key, said in (("2", "Saved: 2."), ("s", "Skipped."), ("c", "Saved: cannot tell.")):
        opened.press(key)
        opened.says(said)
    opened.press("u")
    opened.says("Undone: cannot tell.")
    opened.press("0")
    opened.says("Saved: 0.")
    lines = read_judgments(log)
    statuses = ["judged", "skipped", "cannot_tell", "skipped", "judged"]
    assert [line.status for line in lines] == statuses
    assert [line.grade for line in lines] == [2, None, None, None, 0]
    assert lines[2].item == lines[3].item == lines[4].item
    assert all(line.by == "ada" and (line.at or "").endswith("Z") for line in lines)
    assert all(line.seconds is not None and line.seconds >= 0 for line in lines[:3])
    assert opened.wrong == []


def test_keys_alone_mark_evidence(opened: Labelling, log: Path) -> None:
    opened.press("j")
    opened.says("Selected: ")
    selected = opened.page.evaluate("getSelection().toString()").strip()
    opened.press("e")
    opened.says("Marked as evidence.")
    assert opened.text("#evidence q") == selected
    opened.press("3")
    opened.says("Saved: 3.")
    (line,) = read_judgments(log)
    ((start, end),) = line.evidence
    assert passage(line)[start:end] == selected
    opened.press("e")
    opened.says("Select a part of the passage first")


def test_evidence_is_selected_with_the_mouse_and_removed(opened: Labelling, log: Path) -> None:
    opened.page.locator("#passage").click(click_count=3)
    opened.press("e")
    opened.page.get_by_role("button", name="remove evidence 1").click()
    assert opened.page.locator("#evidence").is_hidden()
    opened.page.evaluate("getSelection().selectAllChildren(document.body)")
    opened.press("e", "1")  # what is selected is cut to the passage
    opened.says("Saved: 1.")
    (line,) = read_judgments(log)
    assert line.evidence == ((0, len(passage(line))),)


def test_positions_count_characters(browser: Browser, log: Path) -> None:
    text = "\U0001f6a2\U0001f6a2 A ferry.\r\n\u05e9\u05dc\u05d5\u05dd e\u0301. Last one \U0001f600."
    with serving(session_of(log, {"d": text}, {"q": "ferry"})) as client:
        opened = Labelling(browser, client.address)
        opened.press("j", "j", "j", "j", "e", "2")
        opened.says("Saved: 2.")
        opened.close()
    (line,) = read_judgments(log)
    ((start, end),) = line.evidence
    assert text[start:end] == "Last one \U0001f600."


def test_questions_are_marked(opened: Labelling, log: Path) -> None:
    question = opened.text("#question")
    opened.answer = next(query_id for query_id, text in QUESTIONS.items() if text != question)
    for name in ("unclear", "duplicate"):
        button = opened.page.get_by_role("button", name=name)
        button.click()
        opened.says(f"Question marked as {name}.")
        assert button.get_attribute("aria-pressed") == "true"
    (mark,) = read_marks(marks_file(log)).values()
    assert (QUESTIONS[mark.query_id], mark.mark, mark.of) == (question, "duplicate", opened.answer)
    assert not log.exists()


def test_neighbours_and_how_it_stands(opened: Labelling, browser: Browser, log: Path) -> None:
    results = opened.page.get_by_role("button", name="Results so far")
    opened.press("3")
    opened.says("Saved: 3.")
    results.click()
    opened.page.locator("#standing-text", has_text="1 label.").wait_for()
    opened.press("Escape")
    for key in "012c":
        opened.press(key)
        opened.says(f"Saved: {key.replace('c', 'cannot tell')}.")
    results.click()
    rows = opened.page.locator("#systems tbody tr")
    rows.first.wait_for()
    assert sorted(rows.locator("th").all_text_contents()) == ["hidden-a", "hidden-b"]
    assert "differences are decided" in opened.text("#standing-text")
    heads = opened.page.locator("#systems thead th").all_text_contents()
    assert heads[2:] == ["these questions and this pool", "questions like these"]
    assert "these questions and this pool" in opened.text("#standing-text")
    assert "66 % of the pairs" in opened.text("#price")
    assert "'cannot tell' are treated as missing at random" in opened.text("#price")
    opened.press("Escape")
    assert "hidden" not in opened.page.inner_text("body")
    assert opened.wrong == []


def test_nothing_is_lost_when_the_server_does_not_answer(opened: Labelling, log: Path) -> None:
    """The answer is on the disk, its confirmation is lost, and the same is sent again."""
    dropped: list[str] = []

    def drop(route: Any) -> None:
        if dropped:
            route.continue_()
            return
        dropped.append(route.fetch().text())
        route.abort()

    opened.page.route("**/answer", drop)
    opened.press("2")
    opened.page.get_by_text("Not saved: ").wait_for()
    opened.page.get_by_role("button", name="Try again").click()
    opened.says("Saved: 2.")
    assert len(read_judgments(log)) == 1
    opened.press("1")
    opened.says("Saved: 1.")
    assert len(read_judgments(log)) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_both_schemes(browser: Browser, client: Client, scheme: str) -> None:
    opened = Labelling(browser, client.address, viewport=PHONE, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert opened.page.evaluate(RATIOS) >= 4.5
    heights = opened.page.evaluate(
        "[...document.querySelectorAll('.actions button')].filter((b) => !b.hidden)"
        ".map((b) => b.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44
    opened.page.get_by_role("button", name="relevant", exact=False).nth(1).click()
    opened.says("Saved: ")
    opened.close()


RATIOS = (
    CONTRAST.split("const texts")[0]
    + """
  const pairs = [['ink', 'page'], ['ink', 'panel'], ['soft', 'page'], ['soft', 'panel'],
    ['link', 'page'], ['mark-ink', 'mark'], ['evidence-ink', 'evidence']];
  return Math.min(...pairs.map((pair) => ratio(...pair)));
}"""
)


def test_a_screen_reader_is_told_what_everything_is(opened: Labelling) -> None:
    unnamed = opened.page.evaluate(
        "[...document.querySelectorAll('button, input')].filter((one) => !(one.textContent.trim()"
        " || one.labels?.length || one.ariaLabel)).map((one) => one.outerHTML)"
    )
    assert unnamed == []
    for role, name in (
        ("group", "Passage"),
        ("group", "Your judgment"),
        ("group", "About the question"),
        ("button", "0 not relevant"),
        ("textbox", "You"),
    ):
        assert opened.page.get_by_role(role, name=name, exact=True).count() == 1, name  # type: ignore[arg-type]
    assert opened.page.locator("#said").get_attribute("aria-live") == "polite"
    assert opened.page.locator("html").get_attribute("lang") == "en"


def test_keys_can_be_switched_off(opened: Labelling, log: Path) -> None:
    opened.page.get_by_label("keys").uncheck()
    opened.press("2")
    opened.page.wait_for_timeout(200)
    assert not log.exists()


def test_hostile_texts_run_nothing(browser: Browser, log: Path) -> None:
    texts = {f"{text[:300]} {n}": f"# {text[:100]}\n{text}" for n, text in enumerate(HOSTILE)}
    questions = {f"{HOSTILE[0]} q": " ".join(text[:1000] for text in HOSTILE)}
    with serving(session_of(log, texts, questions)) as client:
        opened = Labelling(browser, client.address, viewport=PHONE)
        for number in range(4):
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
            opened.press("j", "e")
            opened.page.locator("#evidence li").wait_for()
            rest = opened.page.get_by_role("button", name="more of the passage")
            if rest.is_visible():
                opened.page.evaluate("document.getElementById('rest').click()")
                opened.page.wait_for_timeout(300)
            opened.press("1")
            opened.page.locator("#progress", has_text=f"{number + 1} answered").wait_for()
        assert opened.page.evaluate("window.attacked") is None
        assert opened.page.locator("main script, main img, main svg, main a").count() == 0
        assert opened.wrong == []
        opened.close()
    for line in read_judgments(log):
        assert line.evidence


def test_another_page_cannot_ask(browser: Browser, client: Client, log: Path) -> None:
    with serving(session_of(log.with_name("other.jsonl"))) as evil:
        page = Labelling(browser, evil.address).page
        body = '{"by":"eve"}'
        asked = page.evaluate(
            f"""() => fetch({client.address + "next"!r}, {{method: "POST", mode: "no-cors",
                headers: {{"Content-Type": "text/plain"}}, body: {body!r}}})
                .then(() => "answered", () => "refused")"""
        )
        assert asked == "refused"
        page.context.close()
    assert not log.exists()


def test_a_killed_browser_loses_and_doubles_nothing(
    browser: Browser, log: Path, tmp_path: Path
) -> None:
    program, generator = browser_program(), random.Random(3)
    texts = {f"d{n}": f"Text {n}." for n in range(4)}
    n_questions = 20 * KILLS
    session = session_of(log, texts, {f"q{n}": f"question {n}" for n in range(n_questions)})
    with serving(session) as client:
        for number in range(KILLS):
            options = [*OPTIONS, "--headless=new", "--remote-debugging-port=0"]
            folder = tmp_path / f"profile{number}"
            with subprocess.Popen(
                [program, *options, f"--user-data-dir={folder}", "about:blank"],
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                try:
                    assert process.stderr is not None
                    lines = (line for line in process.stderr if "listening on " in line)
                    address = next(lines).split("listening on ")[1].strip()
                    page = browser.browser_type.connect_over_cdp(address).contexts[0].new_page()
                    page.goto(client.address)
                    page.wait_for_selector("main:not([hidden])")
                    end = time.monotonic() + generator.uniform(0.0, 0.5)
                    while time.monotonic() < end:
                        page.keyboard.press("1")
                    page.keyboard.press("2")
                finally:
                    process.kill()
        items = [line.item for line in read_judgments(log)]
        assert len(items) == len(set(items)) >= KILLS
        waiting = client.ask("next")
    assert waiting["progress"]["answered"] == len(items)
    assert waiting["progress"]["left"] == 4 * n_questions - len(items)
