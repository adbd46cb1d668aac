"""Every command of labels, data, generation and plan in docs/ prints what the page says."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import yaml

from rag_assets.experiment.config import ChecksConfig, DriftConfig
from rag_assets.labels.questions_stage import REASONS
from rag_assets.sources import FORMATS
from rag_assets.sources.writers import WRITERS
from tests import weighting_plots as plots
from tests.forked import Forks
from tests.llm.server import says, serving
from tests.page_text import Attributes, PageText
from tests.walked_page import DOCS, alike, walk


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    return tmp_path


WRITTEN: Mapping[str, Mapping[str, object]] = {
    "generation.md": {
        "single ticket": [{"question": "How much is a one-way trip?", "answer": "40 crowns"}],
        "dog": [
            {"question": "What does the passage say of dogs?", "answer": ""},
            {"question": "Are 10 crowns for a dog?", "answer": "10 crowns"},
        ],
        "southern": [{"question": "When can no ship enter the south port?", "answer": "a storm"}],
    },
    "index_texts.md": {
        "single": ["What is the price of a ticket?", "Are all routes the same?"],
        "Four-legged": ["What does a ticket for a dog cost?", "May a cat come?"],
        "southern": ["When can no ship enter the south port?", "Is it open in a storm?"],
    },
}
"""Page -> word of a prompt -> the questions that the page's model writes."""


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_whose_model_writes_questions(folder: Path, page: str) -> None:
    with serving() as server:
        for word, questions in WRITTEN[page].items():
            server.on(word, says(json.dumps(questions)))
        walk(page, folder, server=server.base_url)
        assert len(server.received) == 3


COMMANDS = {
    "answers.md": "score",
    "data.md": "convert validate",
    "drift.md": "anchor evaluate validate",
    "first_evaluation.md": "ask attribution compare evaluate init leaderboard plan status validate",
    "history.md": "anchor diff evaluate gate history",
    "how_to/answers_without_gold.md": "evaluate judge",
    "how_to/from_autorag.md": "evaluate export-run score validate",
    "how_to/from_llamaindex.md": "evaluate score validate",
    "how_to/from_ragas.md": "evaluate export-run judge leaderboard score",
    "how_to/kubernetes.md": "",
    "how_to/nightly.md": "anchor diff evaluate gate history",
    "how_to/online.md": "evaluate interleave leaderboard",
    "how_to/own_answers.md": "evaluate leaderboard plan",
    "how_to/own_search.md": "evaluate plan",
    "how_to/production_search.md": "attribution compare convert evaluate leaderboard score",
    "how_to/read_statistics.md": "compare evaluate leaderboard",
    "how_to/search_libraries.md": "evaluate",
    "in_python.md": "",
    "judges.md": "compare evaluate export-run judge score",
    "labelling.md": "compare evaluate label pool",
    "labels.md": "evaluate pool validate",
    "notebook.md": "",
    "plan.md": "evaluate plan",
    "semantics.md": "",
    "store.md": "clean evaluate",
    "terminal.md": "-v compare evaluate leaderboard leaderbord validate",
    "weightings.md": "",
}
"""Page -> the first words of the commands that it runs; pages without one run scripts."""

PACKAGES = {
    "data.md": ("pypdfium2",),
    "how_to/kubernetes.md": ("dagster_k8s",),
    "how_to/search_libraries.md": ("tantivy",),
    "notebook.md": ("pandas", "polars"),
}


@pytest.mark.usefixtures("with_ray")
def test_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ASSETS_COMPUTE", raising=False)
    used = [command.line.split()[1] for command in walk("cluster.md", folder)]
    assert used == ["plan", "evaluate"]


@pytest.mark.parametrize("page", COMMANDS)
def test_a_page(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    for package in PACKAGES.get(page, ()):
        pytest.importorskip(package)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    shutil.copytree(DOCS.parent / "data" / "handbook", folder / "data" / "handbook")
    walked = [command.line.split() for command in walk(page, folder, forks)]
    assert walked
    assert {words[1] for words in walked if words[0] == "rag-assets"} == set(COMMANDS[page].split())
    assert page != "in_python.md" or not (folder / "store").exists()


def test_formats_and_reasons_are_on_the_pages() -> None:
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    for name in FORMATS:
        assert f"\n| `{name}` |" in page, name
    for name in WRITERS:
        assert f"\n| `--to {name}` |" in page, name
        assert f"--to {name}" in page.replace(f"| `--to {name}` |", ""), "and is converted to"
    page = (DOCS / "generation.md").read_text(encoding="utf-8")
    for reason in REASONS:
        assert f"\n| `{reason}` |" in page, reason


def test_the_limits_of_drift_are_on_the_page() -> None:
    page = (DOCS / "drift.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    (block,) = (yaml.safe_load(text) for text in blocks if "checks" in text)
    config = ChecksConfig.model_validate(block["checks"]).drift
    assert config.model_fields_set == set(DriftConfig.model_fields)
    for name in DriftConfig.model_fields.keys() - {"far_below"}:
        assert re.search(rf"\b{name}: .*default: {getattr(DriftConfig(), name)}\b", page)


def test_automation(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "store" / "dagster"
    home.mkdir(parents=True)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    commands = [tuple(command.line.split()[:3]) for command in walk("automation.md", folder, forks)]
    assert commands == [
        ("rag-assets", "evaluate", "data/ferry"),
        ("dagster", "schedule", "list"),
        ("dagster", "job", "execute"),
        ("dagster", "job", "execute"),
    ]


def test_remote_store(folder: Path, s3_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ASSETS_STORE", s3_store)
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(folder / "machine"))
    lines = [command.line for command in walk("remote-store.md", folder)]
    assert sum("evaluate" in line for line in lines) == 3


def test_benchmarks() -> None:
    """The page is what benchmarks/page.py writes of the results: nothing is typed by hand."""
    script = runpy.run_path(str(DOCS.parent / "benchmarks" / "page.py"))
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert page == script["page"](), "run `python benchmarks/page.py`"
    commands = re.findall(r"^python (benchmarks/\w+\.py)", page, re.M)
    assert commands
    for command in commands:
        assert (DOCS.parent / command).is_file(), command


@pytest.mark.parametrize(
    ("expected", "printed", "is_alike"),
    [
        (["a ... c", "d"], "a b c  \nd\n", True),
        (["...", "d"], "a\nb\nd\n", True),
        (["...", "d"], "a\nb\n", False),
        (["a"], "a\nb\n", False),
        (["a.c"], "abc\n", False),
        ([], "", True),
    ],
)
def test_what_counts_as_alike(expected: list[str], printed: str, is_alike: bool) -> None:
    assert alike(expected, printed) == is_alike


@pytest.mark.parametrize("name", plots.PLOTS)
def test_a_plot_is_as_the_code_draws_it(name: str) -> None:
    drawn = (plots.IMAGES / name).read_text(encoding="utf-8")
    assert drawn == plots.svg(plots.PLOTS[name]), "run `make reference`"
    assert f"(images/{name})" in (DOCS / "weightings.md").read_text(encoding="utf-8")


SCHEME = re.compile(r"^(?:https?:)?//")


class Found(PageText):
    """What a page loads, and its prose."""

    def __init__(self, page: str) -> None:
        super().__init__(("code", "pre", "script", "style"))
        self.loaded: list[str] = []
        self.feed(page)

    def begins(self, tag: str, attributes: Attributes) -> str:
        given = {name: value or "" for name, value in attributes}
        if tag != "a":
            self.loaded += [given[name] for name in ("src", "srcset", "data") if name in given]
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given["href"])
        self.loaded += re.findall(r"url\(([^)]+)\)", given.get("style", ""))
        return ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=DOCS.parent, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_in_the_site_and_loads_nothing_from_elsewhere(site: Path) -> None:
    built = {
        file.relative_to(site).as_posix(): Found(file.read_text(encoding="utf-8"))
        for file in site.rglob("*.html")
    }
    written = {file.relative_to(DOCS).with_suffix(".html") for file in DOCS.rglob("*.md")}
    assert {path.as_posix() for path in written} <= set(built)
    assert {"architecture.html", "contributing.html", "changelog.html"} <= set(built)
    left = re.compile(r"\|---|```|^ *[-*] |\]\([^)]*\)|&lt;|\*\*", re.MULTILINE)
    for name, page in built.items():
        assert left.findall("".join(page.parts)) == [], name
        assert [one for one in page.loaded if SCHEME.match(one.strip("'\" "))] == [], name
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        loaded = re.findall(r"url\(['\"]?([^)'\"]+)|@import ['\"]?([^'\";]+)", text)
        assert [one for pair in loaded for one in pair if SCHEME.match(one)] == [], sheet.name


def test_what_was_found_would_fail() -> None:
    page = Found(
        '<link rel="stylesheet" href="https://a/b.css"><img src="//a/b.png"><a href="http:/">'
    )
    assert [one for one in page.loaded if SCHEME.match(one)] == ["https://a/b.css", "//a/b.png"]


def nav_pages(part: object) -> set[str]:
    if isinstance(part, str):
        return {part}
    entries = part.values() if isinstance(part, dict) else part
    assert isinstance(entries, Iterable)
    return set().union(*map(nav_pages, entries))


def test_the_home_page_has_the_parts_of_the_navigation() -> None:
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    parts = {title: pages for entry in nav for title, pages in entry.items() if title != "Home"}
    assert list(parts) == ["Tutorial", "How to", "Reference", "Explanation"]
    sections = (DOCS / "index.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for (title, pages_of_part), section in zip(parts.items(), sections, strict=True):
        assert section.startswith(f"{title}: ")
        linked = re.findall(r"\]\(([^)#]+\.md)", section)
        assert {re.sub(r"^\.\./(.*)", lambda m: m[1].lower(), one) for one in linked} == nav_pages(
            pages_of_part
        )


@pytest.mark.parametrize(
    "page", sorted(path for path in DOCS.rglob("*.md") if path.name != "index.md")
)
def test_a_page_begins_with_what_it_is_for(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    _, first, *_ = re.split(r"\n{2,}", text.strip())
    assert first.startswith(("After this page you ", "Look up here "))
