"""Turn published reciprocal ranks into run files, so that ``compare`` can pair them with ours.

    python benchmarks/published_ranks.py per_query_top3.csv doc_qa_test.json build/benchmarks

writes ``published_<system>.txt`` (TREC) for each column ``<system>_mrr``. Each question has one
relevant chunk, so its reciprocal rank within the first 3 says at which rank that chunk stood. What
stood above is not published: other chunks fill these places. So hit_rate and mrr up to 3 are the
published ones, and nothing else that can be computed from such a file means anything.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

SUFFIX = "_mrr"


def ranked(relevant: str, corpus: list[str], reciprocal: float) -> list[str]:
    """Return the chunks up to the relevant one; three others where it was not found."""
    others = [chunk for chunk in corpus if chunk != relevant]
    return [*others[: round(1 / reciprocal) - 1], relevant] if reciprocal else others[:3]


def lines(
    rows: list[dict[str, str]], column: str, relevant: Mapping[str, str], corpus: list[str]
) -> Iterator[str]:
    """Yield the lines of one system's run."""
    for row in rows:
        query_id = row["query_id"]
        for rank, chunk in enumerate(ranked(relevant[query_id], corpus, float(row[column])), 1):
            yield f"{query_id} Q0 {chunk} {rank} {-rank} published\n"


def main() -> None:
    """Read the table and the data set, write a file a system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("table", "dataset", "folder"):
        parser.add_argument(name, type=Path)
    asked = parser.parse_args()
    with asked.table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    data = json.loads(asked.dataset.read_text(encoding="utf-8"))
    relevant = {query_id: chunks[0] for query_id, chunks in data["relevant_docs"].items()}
    asked.folder.mkdir(parents=True, exist_ok=True)
    for column in (name for name in rows[0] if name.endswith(SUFFIX)):
        target = asked.folder / f"published_{column.removesuffix(SUFFIX)}.txt"
        text = "".join(lines(rows, column, relevant, list(data["corpus"])))
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
