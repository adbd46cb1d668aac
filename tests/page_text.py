"""What an HTML page says: the text outside of some of its tags."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser

Attributes = list[tuple[str, str | None]]


class PageText(HTMLParser):
    """Collects in ``parts`` the text outside of ``hidden`` tags."""

    def __init__(self, hidden: Iterable[str]) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden_tags, self._open = frozenset(hidden), 0

    def begins(self, tag: str, attributes: Attributes) -> str:
        """Return what a tag says by itself."""
        return ""

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self._open += tag in self._hidden_tags
        self.parts.append(self.begins(tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self._open -= tag in self._hidden_tags

    def handle_data(self, data: str) -> None:
        if not self._open:
            self.parts.append(data)
