"""A tiny BEIR folder for tests: four documents, four queries, five judgments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOSTILE_TAG = "<script>alert('tag')</script>"

FILES = {
    "corpus.jsonl": (
        '{"_id": "d1", "title": "Timetable", "text": "The ferry leaves the harbour at six."}\n'
        '{"_id": "d2", "title": "", "text": "Lorries are loaded on the cargo deck."}\n'
        '{"_id": "d3", "title": "", "text": "Life jackets and rafts are on the upper deck."}\n'
        '{"_id": "d4", "title": "", "text": "A ferry ticket costs four crowns."}\n'
    ),
    "queries.jsonl": (
        '{"_id": "q1", "text": "when does the ferry leave the harbour", '
        f'"metadata": {{"tags": ["{HOSTILE_TAG}", "time"]}}}}\n'
        '{"_id": "q2", "text": "life jackets", "metadata": {"tags": ["safety"]}}\n'
        '{"_id": "q3", "text": "lorries on the upper deck", "metadata": {"tags": ["safety"]}}\n'
        '{"_id": "q4", "text": "opera", "metadata": {"tags": ["safety"]}}\n'
    ),
    "qrels/test.tsv": (
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td4\t0\nq2\td3\t1\nq3\td2\t1\nq3\td3\t0\n"
    ),
}
"""q4 has no relevant document; q3 finds d2 or d3 first."""


def write_beir(folder: Path, changes: Mapping[str, str | None] | None = None) -> Path:
    """Write the folder and return it; ``changes`` replaces files, adds some, or drops them."""
    for name, text in {**FILES, **(changes or {})}.items():
        file = folder / name
        if text is None:
            file.unlink(missing_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
