"""Sentences of the handbook, for tests that embed real texts."""

from __future__ import annotations

from pathlib import Path

HANDBOOK = Path(__file__).resolve().parents[1] / "data" / "handbook"

LENGTH = 120


def handbook_sentences(n: int) -> list[str]:
    """Return the beginnings of the first ``n`` paragraphs, of all files in the order of names."""
    lines = (
        line[:LENGTH]
        for file in sorted(HANDBOOK.rglob("*.md"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if len(line) > 40
    )
    return list(dict.fromkeys(lines))[:n]
