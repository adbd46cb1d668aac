"""One line about things that are odd but no error."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.sources.fields import shown

NAMED = 5
"""So many are named in a note; the rest is counted."""


def note(one: str, many: str, names: Sequence[str]) -> list[str]:
    """Return ``['2 empty documents: 471, 995']``, or nothing when there is nothing to tell."""
    if not names:
        return []
    listed = ", ".join(_plain(name) for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"{len(names)} {one if len(names) == 1 else many}: {listed}{more}"]


def _plain(name: str) -> str:
    return name if name.isprintable() and len(name) <= 60 else shown(name)
