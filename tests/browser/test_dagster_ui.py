"""The real Dagster UI over an evaluated experiment, looked at by a browser.

With ``RAG_ASSETS_SCREENSHOTS=<folder>`` it keeps what it saw, as the pages of docs/ show it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, Response, ViewportSize
from playwright.sync_api import Error as PlaywrightError

from rag_assets.pipeline.evaluation_names import EvaluationNames, register
from tests.background import HOST, free_port, modules_running, wait_until
from tests.browser.conftest import browser_program
from tests.dagster_daemon import PATIENCE, ROOT, answers, daemon_environment, webserver
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
    with webserver(tiny) as address:
        yield address


@pytest.fixture
def ui(served: str, browser: Browser) -> Iterator[DagsterPage]:
    """A new page, in which nothing may go wrong."""
    page = DagsterPage(browser, served)
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


def test_a_partition_and_a_materialization(ui: DagsterPage) -> None:
    ui.open("/assets/ferry/metrics", view="partitions", partition="bm25|5")
    ui.sees("Materialized (6)", "Missing (0)", "hybrid", "bm25|5", "hit_rate", "ndcg", "made_from")
    ui.picture("partitions")
    assert ui.wrong == []
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


def test_a_check(ui: DagsterPage) -> None:
    page = ui.open("/assets/ferry/lexical_runs", view="checks", checkDetail="drift")
    ui.sees("drift", "psi", "far_share", "Failed")
    assert page.get_by_text("the score of the best hit has another distribution").is_visible()
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


FILES = {
    "pyproject.toml": """
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "shop"
""",
    "shop/__init__.py": "",
    "shop/definitions.py": """
from pathlib import Path
from dagster import definitions, load_from_defs_folder

@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
    "shop/defs/raw.py": "import dagster as dg\n\n@dg.asset\ndef raw_docs() -> None: ...\n",
    "shop/defs/ferry/defs.yaml": """
type: rag_assets.RetrievalExperiment
attributes: {path: ../../../data}
post_processing:
  assets:
    - {target: "key:ferry/documents", attributes: {deps: [raw_docs]}}
""",
    "shop/defs/typo/defs.yaml": """
type: rag_assets.RetrievalExperiment
attributes: {path: ../../../typo}
""",
    "typo/experiment.yaml": "name: typo\ntop_kk: [1]\n",
}
STALE = "{assetNodes {assetKey {path} staleStatus staleCauses {reason}}}"
MODULE = ("-m", "shop.definitions")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The UI of the project after its assets, the job and a tick of the sensor; its address."""
    browser_program()
    tiny = Tiny(tmp_path_factory.mktemp("project") / "shop")
    tiny.config |= {"name": "ferry", "top_k": [5], "measurements": {"latency_sample": 0}}
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.write()
    for name, text in FILES.items():
        (tiny.root / name).parent.mkdir(parents=True, exist_ok=True)
        (tiny.root / name).write_text(text, encoding="utf-8")
    tiny.settings.dagster_home.mkdir(parents=True)
    (tiny.settings.dagster_home / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nnux: {enabled: false}\n"
    )
    own = daemon_environment(tiny)
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(tiny.root)])
    for words in (
        ("asset", "materialize", "--select", "raw_docs", *MODULE),
        ("job", "execute", "-j", "ferry_evaluate", *MODULE),
        ("asset", "materialize", "--select", "raw_docs", *MODULE),
        ("job", "execute", "-j", "ferry_evaluate", *MODULE),
    ):
        line = [sys.executable, "-m", "dagster", *words]
        done = subprocess.run(line, cwd=tiny.root, env=own, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:].decode()
    port = free_port()
    address = f"http://{HOST}:{port}"
    commands = {
        "daemon": ("tests.quick_daemon", "run", *MODULE),
        "webserver": ("dagster_webserver", "-h", HOST, "-p", str(port), *MODULE),
    }
    with modules_running(commands, tiny.root, own, signal.SIGINT) as started:
        wait_until(lambda: answers(address), "an answer", started, tiny.root, PATIENCE)
        yield address


def test_all_else_is_fresh_and_the_typo_is_one_red_check(project: str, browser: Browser) -> None:
    ui = DagsterPage(browser, project)
    page = ui.open("/assets/typo/experiment", view="checks", checkDetail="can_be_loaded")
    page.get_by_text("top_kk").first.wait_for()
    page.get_by_text("Failed", exact=True).first.wait_for(timeout=120_000)
    ui.picture("typo")
    ui.open("/assets/ferry/leaderboard", view="lineage", lineageScope="upstream", lineageDepth="9")
    ui.sees("raw_docs", "documents", "leaderboard")
    ui.picture("project")
    reply = page.request.post(f"{project}/graphql", data={"query": STALE}, timeout=120_000).json()
    status = {"/".join(one["assetKey"]["path"]): one for one in reply["data"]["assetNodes"]}
    assert {"raw_docs", "ferry/documents", "typo/experiment"} <= status.keys()
    assert [one for one in status.values() if one["staleStatus"] != "FRESH"] == []
    assert ui.wrong == []


VIEW = ViewportSize(width=1440, height=900)

_TOLD = """() => {
  const tell = (toast) => window.tellToast(toast.innerText);
  const look = () => document.querySelectorAll('[data-sonner-toast]:not([data-seen])')
    .forEach((toast) => { toast.setAttribute('data-seen', ''); tell(toast); });
  new MutationObserver(look).observe(document, {childList: true, subtree: true});
}"""
"""Tells of every message that pops up, also of one that is gone before anybody looks."""


class DagsterPage:
    """A page of the web server at ``address``.

    Attributes:
        wrong: errors of the page, messages that popped up, answers that are errors, and requests to
            any other place than the server.
    """

    def __init__(self, browser: Browser, address: str) -> None:
        self.wrong: list[str] = []
        self.page: Page = browser.new_context(viewport=VIEW, locale="en-GB").new_page()
        self._address = address
        self._pictures = os.environ.get("RAG_ASSETS_SCREENSHOTS")
        self.page.set_default_timeout(30_000)
        self.page.expose_function("tellToast", lambda text: self.wrong.append(f"toast: {text}"))
        self.page.add_init_script(f"({_TOLD})()")
        self.page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("response", self._answered)

    def open(self, path: str, **query: str) -> Page:
        self.page.goto(f"{self._address}{path}{'?' if query else ''}{urlencode(query)}")
        return self.page

    def sees(self, *texts: str) -> None:
        for text in texts:
            self.page.get_by_text(text, exact=True).locator("visible=true").first.wait_for()

    def picture(self, name: str) -> None:
        """Keep a screenshot, once nothing moves any more."""
        if self._pictures:
            self.page.wait_for_timeout(1_500)
            self.page.screenshot(path=Path(self._pictures) / f"{name}.png")

    def _asked(self, url: str) -> None:
        if not url.startswith((self._address, "data:", "blob:")):
            self.wrong.append(f"asked {url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.wrong.append(f"{response.status} of {response.url}")
        elif "/graphql" in response.url and response.request.method == "POST":
            try:
                answer = json.loads(response.body())
            except (PlaywrightError, ValueError):
                return  # the page went on before it was read
            self.wrong += [f"graphql: {error}" for error in errors_in(answer)]


def errors_in(answer: Mapping[str, Any]) -> list[str]:
    found = [str(error.get("message")) for error in answer.get("errors") or []]
    open_parts: list[Any] = [answer.get("data")]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, list):
            open_parts += part
        elif isinstance(part, dict):
            if str(part.get("__typename")).endswith(("PythonError", "LoadError")):
                found.append(str(part.get("message")))
            open_parts += part.values()
    return found
