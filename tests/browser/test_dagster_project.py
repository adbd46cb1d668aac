"""A project with an asset above an experiment, and an experiment with a typo, in the real UI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.background import HOST, free_port, modules_running, wait_until
from tests.browser.conftest import browser_program
from tests.browser.dagster_page import DagsterPage
from tests.dagster_daemon import SERVER_PATIENCE, answers, daemon_environment
from tests.tiny_experiment import Tiny

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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
        wait_until(lambda: answers(address), "an answer", started, tiny.root, SERVER_PATIENCE)
        yield address


def test_all_is_fresh_though_one_experiment_has_a_typo(served: str, browser: Browser) -> None:
    pictures = os.environ.get("RAG_ASSETS_SCREENSHOTS")
    ui = DagsterPage(browser, served, Path(pictures) if pictures else None)
    page = ui.open(
        "/assets/ferry/leaderboard", view="lineage", lineageScope="upstream", lineageDepth="9"
    )
    ui.sees("raw_docs", "documents", "leaderboard")
    ui.picture("project")
    reply = page.request.post(f"{served}/graphql", data={"query": STALE}, timeout=120_000).json()
    status = {"/".join(one["assetKey"]["path"]): one for one in reply["data"]["assetNodes"]}
    assert {"raw_docs", "ferry/documents"} <= status.keys()
    assert [one for one in status.values() if one["staleStatus"] != "FRESH"] == []
    assert ui.wrong == []
