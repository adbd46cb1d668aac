"""The package's page, as an index shows it: links of the README, and where the project lives.

An index shows the README without the repository beside it, so links to other files must say where
that is. A forge knows when it releases: ``RAG_ASSETS_REPOSITORY`` is the repository's address, and
``RAG_ASSETS_REVISION`` the tag that is built. Without them no address is made up: such links
become their text, and the package names no URL.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<path>(?!\w+:|#)[^()\s]+)\)")
_FENCE = re.compile(r"^ *(```|~~~)")


class PackagePage(MetadataHookInterface):
    """Fills in ``readme`` and ``urls``, which pyproject.toml leaves to the build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of the project."""
        repository = os.environ.get("RAG_ASSETS_REPOSITORY", "").rstrip("/")
        revision = os.environ.get("RAG_ASSETS_REVISION") or "main"
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(readme, repository, revision)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(repository, revision) if repository else {}


def with_absolute_links(markdown: str, repository: str, revision: str) -> str:
    """Lead relative links to the repository; without one, leave their text, and no image."""

    def led(link: re.Match[str]) -> str:
        if not repository:
            return "" if link["image"] else link["text"]
        part = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({repository}/{part}/{revision}/{link['path']})"

    lines, fenced = [], False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else _LINK.sub(led, line))
    return "\n".join(lines) + "\n"


def urls(repository: str, revision: str) -> dict[str, str]:
    """Return what an index lists beside the package."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/{revision}/docs/index.md",
        "Changelog": f"{repository}/blob/{revision}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
