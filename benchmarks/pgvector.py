"""pgvector beside exact search: recall, loss of nDCG and latency, on the paragraphs of SQuAD.

    PGVECTOR_DSN=postgresql://user:password@127.0.0.1/scratch python benchmarks/pgvector.py
    ... python benchmarks/pgvector.py --questions 200

The database must have the extension ``vector``; three tables of it are written anew. All 1,204
paragraphs are embedded by all-MiniLM-L6-v2, and 1,000 answerable questions are drawn. Two
experiments of one store share what is searched: ``pgvector`` has labels, and so the loss of nDCG
beside ``exact`` with its interval; ``pgvector_alike`` has none, and so ``overlaps``, of which the
share of common units with ``exact`` is recall@10. Both can be looked at with ``rag-assets``.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

import click
import data_sets
import psycopg2
import yaml
from grid_input import Input, sample, squad, write

from rag_assets.analysis.latency import latency_rows
from rag_assets.api import evaluate
from rag_assets.experiment import load_experiment
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL

VARIABLE = "PGVECTOR_DSN"
DIMENSIONS, TOP_K = 384, 10
HNSW, PROBES, LISTS = (10, 40, 200), (1, 5, 35), 35
"""``hnsw.ef_search``; ``ivfflat.probes`` of so many lists, the last of them all."""


def fill(dsn: str, documents: dict[str, str]) -> None:
    """Write the vectors of the documents into three tables, two with an index."""
    vectors = Encoder(DEFAULT_MODEL).encode(list(documents.values()), kind="document").tolist()
    with psycopg2.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute("DROP TABLE IF EXISTS bench_exact, bench_hnsw, bench_ivfflat")
        cursor.execute(f"CREATE TABLE bench_exact (id text, place vector({DIMENSIONS}))")
        for name, vector in zip(documents, vectors, strict=True):
            cursor.execute("INSERT INTO bench_exact VALUES (%s, %s)", (name, str(vector)))
        for kind, options in (("hnsw", ""), ("ivfflat", f"WITH (lists = {LISTS})")):
            cursor.execute(f"CREATE TABLE bench_{kind} AS TABLE bench_exact")
            cursor.execute(
                f"CREATE INDEX ON bench_{kind} USING {kind} (place vector_cosine_ops) {options}"
            )


def nearest(table: str, **settings: Any) -> dict[str, Any]:  # noqa: ANN401 (of a database)
    """Return a retriever that reads one of the tables."""
    tie = ', id COLLATE "C" DESC' if table == "exact" else ""
    return {
        "type": "sql",
        "dsn_env": VARIABLE,
        "embedding": {"model": DEFAULT_MODEL},
        "query": f"SELECT id, 1 - (place <=> :vector) AS score FROM bench_{table} "
        f"ORDER BY place <=> :vector{tie} LIMIT :k",
        "settings": {"enable_seqscan": table == "exact", **settings},
        "revision": {"sql": f"SELECT count(*) || md5(min(place::text)) FROM bench_{table}"},
    }


def write_experiments(folder: Path, given: Input) -> list[Path]:
    """Write the experiment with labels, and the one without."""
    retrievers = {"exact": nearest("exact"), "embedding": {"type": "embedding"}}
    for effort in HNSW:
        retrievers[f"hnsw_{effort}"] = nearest("hnsw", **{"hnsw.ef_search": effort})
    for probes in PROBES:
        retrievers[f"ivfflat_{probes}"] = nearest("ivfflat", **{"ivfflat.probes": probes})
    folders = [folder / name for name in ("pgvector", "pgvector_alike")]
    for number, one in enumerate(folders):
        write(one, given)
        config: dict[str, Any] = {
            "name": one.name,
            "dataset": {"format": "beir"},
            "retrievers": retrievers,
            "top_k": [TOP_K],
            "measurements": {"latency_sample": 200},
        }
        if number == 0:
            config |= {"primary": f"ndcg@{TOP_K}", "baseline": "exact"}
        else:
            shutil.rmtree(one / "qrels")
        (one / "experiment.yaml").write_text(
            yaml.safe_dump(config, sort_keys=False), encoding="utf-8"
        )
    return folders


def main() -> None:
    """Measure, and print a row a retriever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, default=data_sets.REPOSITORY / "build/benchmarks")
    asked = parser.parse_args()
    if not os.environ.get(VARIABLE):
        raise SystemExit(f"set {VARIABLE} to the DSN of a database with pgvector")
    folder = asked.folder / "pgvector"
    shutil.rmtree(folder, ignore_errors=True)
    given = sample(squad(data_sets.find("squad")), asked.questions)
    fill(os.environ[VARIABLE], given.documents)
    labelled, alike = write_experiments(folder, given)
    store = folder / "store"
    result = evaluate(labelled, store)
    overlap = evaluate(alike, store).overlaps[TOP_K].to_pylist()
    recall = {
        row["retriever_b"]: row["overlap"] for row in overlap if row["retriever_a"] == "exact"
    }
    compared = {
        row["retriever_b"]: row
        for row in result.table_of("comparisons").to_pylist()
        if row["retriever_a"] == "exact"
    }
    experiment = load_experiment(labelled)
    click.echo(f"{len(given.documents)} paragraphs, {len(given.queries)} questions, k {TOP_K}")
    click.echo(f"{'':12}{'recall':>8}{'nDCG':>8}{'change':>9}{'interval':>20}{'p95 ms':>9}")
    for row in latency_rows(result, experiment, experiment.retrievers):
        name = str(row["retriever"])
        own = compared.get(name)
        p95 = f"{row['p95_ms']:9.2f}" if row["p95_ms"] is not None else ""
        if own is None:
            click.echo(f"{name:12}{1:8.4f}{'':37}{p95}")
            continue
        interval = f"[{own['low']:+.4f}, {own['high']:+.4f}]"
        numbers = f"{recall[name]:8.4f}{own['mean_b']:8.4f}{own['difference']:+9.4f}"
        click.echo(f"{name:12}{numbers}{interval:>20}{p95}")


if __name__ == "__main__":
    main()
