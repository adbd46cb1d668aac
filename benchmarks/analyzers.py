"""Every analyzer on the same questions in several languages: nDCG@10 of BM25.

    python benchmarks/analyzers.py DATA_FOLDER

The folder holds XQuAD's files (``xquad.de.json``, ... in SQuAD's layout): the same 240 paragraphs
and 1,190 questions in each language. One document is relevant, so a query's nDCG@10 is
1 / log2(1 + rank). Prints a Markdown table: what ``auto`` chooses, what it reaches, the best of all
analyzers that are installed, and the queries for which nothing is retrieved.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from math import log2
from pathlib import Path
from typing import NamedTuple

import click

from rag_assets.retrieval.lexical.analyzers import ANALYZERS, AUTO
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tokens import AnalysedTexts
from rag_assets.sources.json_datasets import SquadDataset


class Measured(NamedTuple):
    """What an analyzer reaches on a file, and what ``auto`` came to."""

    ndcg: float
    n_empty: int
    used: str


def measured(file: Path, analyzer: str) -> Measured:
    """Return what BM25 reaches with an analyzer; documents are the paragraphs."""
    dataset = SquadDataset.open(file)
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    qrels = dataset.read_qrels(documents, queries).table
    judged = (qrels.column(name).to_pylist() for name in ("query_id", "document_id"))
    relevant = dict(zip(*judged, strict=True))
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        analysed = AnalysedTexts.of(ids, texts, analyzer)
        BM25(type="bm25").build_of(analysed, folder)
        index = BM25(type="bm25").opened(folder)
        found = index.search(queries.column("text").to_pylist(), 10)
    total, n_empty = 0.0, 0
    for query_id, hits in zip(queries.column("query_id").to_pylist(), found, strict=True):
        n_empty += hits.positions.size == 0
        ranked = [index.chunk_ids[position] for position in hits.positions.tolist()]
        if relevant[query_id] in ranked:
            total += 1 / log2(2 + ranked.index(relevant[query_id]))
    return Measured(total / queries.num_rows, n_empty, index.analyzer)


def main(folder: Path) -> None:
    """Print the table."""
    names = [
        name
        for name, one in ANALYZERS.items()
        if one.extra is None or all(map(find_spec, one.distributions))
    ]
    click.echo("| language | `auto` is | nDCG@10 | empty | `standard` | best of all | ratio |")
    click.echo("|---|---|---|---|---|---|---|")
    for file in sorted(folder.glob("xquad.*.json")):
        auto = measured(file, AUTO)
        each = {name: measured(file, name).ndcg for name in names}
        best = max(each, key=lambda name: each[name])
        cells = [
            *(file.suffixes[-2].removeprefix("."), f"`{auto.used}`", f"{auto.ndcg:.4f}"),
            *(str(auto.n_empty), f"{each['standard']:.4f}", f"{each[best]:.4f} (`{best}`)"),
            f"{auto.ndcg / each[best]:.3f}",
        ]
        click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
