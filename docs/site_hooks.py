"""Hooks of the site: the pages that lie beside docs/, and Markdown as GitHub reads it.

mkdocs calls the functions by their names; see ``hooks`` in mkdocs.yml.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

BESIDE = {
    "ARCHITECTURE.md": "docs/architecture.md",
    "CHANGELOG.md": "docs/changelog.md",
    "CONTRIBUTING.md": "docs/contributing.md",
    "SECURITY.md": "docs/security.md",
    "UPGRADING.md": "docs/upgrading.md",
}
"""File in the repository's root -> where its page would lie."""

_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>(?!\w+:|#)[^()\s#]+)(?P<anchor>#[^()\s]*)?\)")
_FENCE = re.compile(r"^ *(```|~~~)")
_INSIDE_AN_ITEM = re.compile(r"^ {2,3}(?=\S)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside docs/."""
    root = Path(config.config_file_path).parent
    for name, page in BESIDE.items():
        text = (root / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page.removeprefix("docs/"), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their files are in the site, and indent lists as Python-Markdown wants.

    A link to what the site does not hold becomes its text.
    """
    place = f"docs/{page.file.src_uri}"
    source = {path: name for name, path in BESIDE.items()}.get(place, place)

    def led(link: re.Match[str]) -> str:
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["path"]))
        target = BESIDE.get(wanted, wanted)
        if not target.startswith("docs/"):
            return link["text"]
        relative = posixpath.relpath(target, posixpath.dirname(place))
        return f"[{link['text']}]({relative}{link['anchor'] or ''})"

    lines, fenced = [], False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else _LINK.sub(led, _INSIDE_AN_ITEM.sub("    ", line)))
    return "\n".join(lines)
