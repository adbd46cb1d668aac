"""The documentation as a site: built without a warning, and loading nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
SCHEME = re.compile(r"^(?:https?:)?//")


class Found(HTMLParser):
    """What a page loads, and its prose."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.prose: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._code += tag in ("code", "pre", "script", "style")
        if tag != "a":
            self.loaded += [given[name] for name in ("src", "srcset", "data") if name in given]
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given["href"])
        self.loaded += re.findall(r"url\(([^)]+)\)", given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.prose.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def pages(site: Path) -> dict[str, Found]:
    found = {}
    for file in sorted(site.rglob("*.html")):
        page = Found()
        page.feed(file.read_text(encoding="utf-8"))
        found[file.relative_to(site).as_posix()] = page
    return found


def test_every_page_is_in_the_site(site: Path) -> None:
    built = set(pages(site))
    docs = REPOSITORY / "docs"
    written = {file.relative_to(docs).with_suffix(".html") for file in docs.rglob("*.md")}
    assert {path.as_posix() for path in written} <= built
    assert {"architecture.html", "contributing.html", "changelog.html"} <= built


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for name, page in pages(site).items():
        assert [one for one in page.loaded if SCHEME.match(one.strip("'\" "))] == [], name
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        loaded = re.findall(r"url\(['\"]?([^)'\"]+)|@import ['\"]?([^'\";]+)", text)
        assert [one for pair in loaded for one in pair if SCHEME.match(one)] == [], sheet.name


def test_what_was_found_would_fail() -> None:
    page = Found()
    page.feed(
        '<link rel="stylesheet" href="https://a/b.css"><img src="//a/b.png"><a href="http:/">'
    )
    assert [one for one in page.loaded if SCHEME.match(one)] == ["https://a/b.css", "//a/b.png"]


def test_no_markup_is_left_in_the_prose(site: Path) -> None:
    left = re.compile(r"\|---|```|^ *[-*] |\]\([^)]*\)|&lt;|\*\*", re.MULTILINE)
    for name, page in pages(site).items():
        assert left.findall("".join(page.prose)) == [], name


def nav_pages(part: object) -> set[str]:
    """Return the files of a part of the navigation, with those of its groups."""
    if isinstance(part, str):
        return {part}
    entries = part.values() if isinstance(part, dict) else part
    assert isinstance(entries, Iterable)
    return set().union(*map(nav_pages, entries))


def test_the_home_page_has_the_parts_of_the_navigation() -> None:
    nav = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    parts = {title: pages for entry in nav for title, pages in entry.items() if title != "Home"}
    assert list(parts) == ["Tutorial", "How to", "Reference", "Explanation"]
    sections = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for (title, pages_of_part), section in zip(parts.items(), sections, strict=True):
        assert section.startswith(f"{title}: ")
        linked = re.findall(r"\]\(([^)#]+\.md)", section)
        assert {re.sub(r"^\.\./(.*)", lambda m: m[1].lower(), one) for one in linked} == nav_pages(
            pages_of_part
        )
