"""Copy Cranfield as a BEIR folder, with the year of each abstract's bibliography as a field.

    python benchmarks/cranfield_years.py build/benchmarks/cranfield build/benchmarks/cranfield_years

``year`` is the last number from 1800 to 1999 of the field ``bib`` (``j. ae. scs. 25, 1958, 324.``),
as it stands there; an abstract without one gets none.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

_YEAR = re.compile(r"\b1[89]\d\d\b")


def with_year(row: dict[str, object]) -> dict[str, object]:
    """Return a document with its year, where its bibliography names one."""
    metadata = row.get("metadata")
    if not isinstance(metadata, dict):
        return row
    years = _YEAR.findall(str(metadata.get("bib", "")))
    return {**row, "metadata": {**metadata, "year": years[-1]}} if years else row


def main() -> None:
    """Read one folder, write the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    asked = parser.parse_args()
    (asked.target / "qrels").mkdir(parents=True, exist_ok=True)
    for name in ("queries.jsonl", "qrels/test.tsv"):
        shutil.copyfile(asked.source / name, asked.target / name)
    corpus = (asked.source / "corpus.jsonl").read_text(encoding="utf-8")
    rows = [with_year(json.loads(line)) for line in corpus.splitlines()]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (asked.target / "corpus.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
