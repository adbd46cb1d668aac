from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from rag_assets.errors import StoreError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.pipeline.warehouse_time import is_current
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import DOCUMENTS, Tiny

TOP_K = (1, 3, 5)
WHOLE = ("documents", "queries", "qrels", "comparisons", "leaderboard")


def ask(warehouse: Path, statement: str) -> list[dict[str, Any]]:
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        rows: list[dict[str, Any]] = connection.sql(statement).to_arrow_table().to_pylist()
    return rows


def rows_of(warehouse: Path, table: str, key: ArtifactKey) -> list[dict[str, Any]]:
    """The rows of a table that are those of a partition."""
    values = dict(key.partition)
    where = " AND ".join(["experiment = 'tiny'", *(f"{n} = '{v}'" for n, v in values.items())])
    columns = ", ".join(["experiment", *values])
    return ask(warehouse, f"SELECT * EXCLUDE ({columns}) FROM {table} WHERE {where}")


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def test_tables_and_views_show_what_the_snapshot_names(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    of_retrievers = [
        (table, ArtifactKey.of(table, retriever=retriever))
        for retriever in tiny.config["retrievers"]
        for table in ("metrics_summary", "intervals")
    ]
    cells = [
        ("query_metrics", metrics_key(retriever, top_k))
        for retriever in tiny.config["retrievers"]
        for top_k in TOP_K
    ]
    run = ("runs", ArtifactKey.of("fused_runs", retriever="hybrid", top_k=3))
    whole = [(name, ArtifactKey.of(name)) for name in WHOLE]
    for table, key in (*of_retrievers, *cells, run, *whole):
        found, stored = rows_of(warehouse, table, key), tiny.rows(key)
        assert found
        assert in_order(found) == in_order(stored), (table, key)


def test_a_measurement_has_its_experiment_and_its_asset(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    measured = ask(warehouse, "SELECT what, count(*) AS n FROM measurements GROUP BY ALL")
    assert {"what": "metrics", "n": 15} in measured
    (built,) = ask(
        warehouse, "SELECT * FROM measurements WHERE what = 'lexical_index' AND retriever = 'okapi'"
    )
    assert list(built)[:3] == ["experiment", "asset", "retriever"]
    assert (built["experiment"], built["asset"], built["amount"]) == ("tiny", "lexical_index", 1)
    assert built["bytes"] > 0
    assert (built["p50_ms"], built["cached"], built["tokens"], built["cost"]) == (None,) * 4


def test_what_is_measured_after_a_rebuild_is_there_and_damaged_files_are_not(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    counted = "SELECT count(*) AS n, count(DISTINCT fingerprint) AS known FROM measurements"
    (before,) = ask(warehouse, counted)
    folder = tiny.settings.store / "measurements"
    measured = {"what": "search", "fingerprint": "1" * 64, "seconds": 2, "amount": 1}
    (folder / "search" / f"{'1' * 16}.json").write_text(json.dumps(measured))
    (folder / "search" / f"{'2' * 16}.json").write_text('{"what": "search", "finger')
    (after,) = ask(warehouse, counted)
    assert (after["n"], after["known"]) == (before["n"] + 1, before["known"] + 1)
    (file, *_) = sorted((folder / "metrics").glob("*.json"))
    file.write_bytes(file.read_bytes().replace(b'"amount": 1', b'"amount": 3'))
    (other, *_) = sorted((folder / "chunks").glob("*.json"))
    other.write_bytes(other.read_bytes().replace(b'"what"', b'"wh\xe1t"'))
    assert ask(warehouse, counted)[0]["n"] == after["n"] - 2


def test_without_an_evaluation_it_is_empty(tiny: Tiny, fresh: Tiny) -> None:
    names = list(ask(rebuild(tiny.settings), "SELECT * FROM measurements LIMIT 1")[0])
    warehouse = rebuild(fresh.settings)
    for table in ("evaluations", "measurements"):
        assert ask(warehouse, f"SELECT * FROM {table}") == []
    assert [row["column_name"] for row in ask(warehouse, "DESCRIBE measurements")] == names


def test_an_unreadable_experiment_does_not_hide_the_others(tiny: Tiny) -> None:
    broken = tiny.settings.store / "broken"
    broken.mkdir()
    broken.joinpath("current").write_text("no-such-evaluation")
    found = ask(rebuild(tiny.settings), "SELECT DISTINCT experiment FROM leaderboard")
    assert found == [{"experiment": "tiny"}]


def test_a_failed_rebuild_leaves_the_old_file(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    before = warehouse.read_bytes()
    (board,) = tiny.objects("leaderboard").iterdir()
    table = board / "table.parquet"
    table.write_bytes(table.read_bytes()[:-4] + b"oops")
    with pytest.raises(StoreError, match=board.name):
        rebuild(tiny.settings)
    assert warehouse.read_bytes() == before
    assert {file.name for file in tiny.settings.state_dir.iterdir() if "tmp" in file.name} == set()


def test_every_asset_with_rows_is_a_table_or_a_view(tiny: Tiny) -> None:
    tiny.config["query_sets"] = {"said": {"strategy": "file", "path": "variants.jsonl"}}
    tiny.write_rows("variants.jsonl", [{"query_id": "q1", "variants": ["dog fares"]}])
    tiny.configure("worded", type="bm25", chunking="parts", query_set="said")
    tiny.run()
    evaluation = tiny.snapshot()
    warehouse = rebuild(tiny.settings)
    counts: dict[str, int] = {}
    for entry in evaluation.entries:
        if entry.asset == "term_counts":  # arrays; its chunks are those of the indexes
            continue
        named = {"metrics": "query_metrics", "overlaps": "run_overlaps"}.get(entry.asset)
        indexes = "indexes" if entry.asset.endswith("_index") else None
        runs = "runs" if entry.asset.endswith("_runs") else None
        name = named or indexes or runs or entry.asset
        counts[name] = counts.get(name, 0) + entry.rows
    assert {"indexes", "query_sets", "lexical_queries", "retriever_contexts"} <= counts.keys()
    for name, rows in counts.items():
        assert ask(warehouse, f"SELECT count(*) AS n FROM {name}") == [{"n": rows}], name
    (first, *_) = ask(warehouse, "FROM indexes WHERE retriever = 'okapi' ORDER BY chunk_id LIMIT 1")
    assert (first["experiment"], first["asset"]) == ("tiny", "lexical_index")
    assert first["document_id"] == "crew.md"


def test_views_show_what_an_index_holds(tiny: Tiny) -> None:
    numbers = {name: [float(n), 1.0] for n, name in enumerate(DOCUMENTS)}
    for name, rows in {"chunks": numbers, "queries": {"q1": [1.0, 2.0]}}.items():
        np.save(tiny.root / f"{name}.npy", np.array(list(rows.values()), np.float32))
        (tiny.root / f"{name}.txt").write_text("\n".join(rows))
    tiny.write_rows("queries.jsonl", [{"query_id": "q1", "text": "a ticket for dogs"}])
    tiny.write_rows("judgments.jsonl", [{"query_id": "q1", "doc_id": "fares.md"}])
    files = {
        **{"chunk_vectors": "../chunks.npy", "chunk_ids": "../chunks.txt"},
        **{"query_vectors": "../queries.npy", "query_ids": "../queries.txt"},
    }
    tiny.configure("given", type="vectors", chunking="whole", similarity="dot", **files)
    tiny.run()
    tiny.snapshot()
    warehouse = rebuild(tiny.settings)
    held = ask(
        warehouse,
        "SELECT term, document_frequency AS n, list(chunk_id ORDER BY chunk_id) AS chunks "
        "FROM terms JOIN postings USING (experiment, retriever, asset, term) "
        "WHERE retriever = 'bm25-whole' AND term IN ('dog', 'ticket') GROUP BY ALL ORDER BY term",
    )
    assert held == [
        {"term": "dog", "n": 1, "chunks": ["fares.md"]},
        {"term": "ticket", "n": 2, "chunks": ["fares.md", "lost.md"]},
    ]
    counted = ask(
        warehouse,
        "SELECT chunk_id, sum(weight) AS n FROM postings WHERE retriever = 'bm25-whole' "
        "AND term IN ('dog', 'ticket') GROUP BY ALL ORDER BY chunk_id",
    )
    assert counted == [
        {"chunk_id": name, "n": len(re.findall(r"\b(?:dog|ticket)s?\b", text.lower()))}
        for name, text in sorted(DOCUMENTS.items())
        if name in ("fares.md", "lost.md")
    ]
    vectors = ask(warehouse, "FROM vectors ORDER BY chunk_id")
    assert vectors == [
        {
            **{"experiment": "tiny", "retriever": "given", "asset": "embedding_index"},
            **{"chunk_id": name, "vector": numbers[name]},
        }
        for name in sorted(DOCUMENTS)
    ]


def test_the_warehouse_of_a_moved_store_is_built_anew(tiny: Tiny, tmp_path: Path) -> None:
    rebuild(tiny.settings)
    counted = "SELECT (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM measurements) AS m"
    before = ask(tiny.settings.warehouse, counted)
    moved = StoreSettings.resolve(shutil.move(tiny.settings.store, tmp_path / "moved [1]"))
    assert not is_current(moved)
    open_to_read(tiny.folder, moved)
    assert ask(moved.warehouse, counted) == before


def kept(warehouse: Path) -> list[dict[str, Any]]:
    return ask(warehouse, "FROM query_metrics ORDER BY ALL")


def flipped(warehouse: Path) -> bytes:
    content = bytearray(warehouse.read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


def flip_below_the_file_system(warehouse: Path) -> None:
    before = warehouse.stat()
    warehouse.write_bytes(flipped(warehouse))
    os.utime(warehouse, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_damages_it_is_noticed_by_who_reads(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    before, whole = kept(warehouse), warehouse.read_bytes()
    for damage in (
        lambda: warehouse.write_bytes(whole[:-1000]),
        lambda: warehouse.write_bytes(flipped(warehouse)),
        lambda: flip_below_the_file_system(warehouse),
        lambda: warehouse.write_text("no database"),
        lambda: warehouse.with_name("warehouse.duckdb.wal").write_bytes(b"of another file"),
    ):
        damage()
        assert not is_current(tiny.settings)
        open_to_read(tiny.folder, tiny.settings)
        assert is_current(tiny.settings)
        assert kept(warehouse) == before


def test_a_pointer_that_moved_without_it_is_noticed(tiny: Tiny) -> None:
    """As after kill -9 between the pointer and the swap; and nothing to be computed then."""
    rebuild(tiny.settings)
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.snapshot()
    assert not is_current(tiny.settings)
    open_to_read(tiny.folder, tiny.settings)
    assert is_current(tiny.settings)
    key = ArtifactKey.of("metrics", retriever="bm25", top_k=5)
    where = "WHERE retriever = 'bm25' AND top_k = 5 ORDER BY query_id"
    columns = "* EXCLUDE (experiment, retriever, top_k)"
    found = ask(tiny.settings.warehouse, f"SELECT {columns} FROM query_metrics {where}")
    assert found == tiny.rows(key)


def test_an_evaluation_without_a_change_keeps_it_unless_it_is_damaged(fresh: Tiny) -> None:
    assert fresh.command("evaluate", ".").exit_code == 0
    built = fresh.settings.warehouse.stat()
    assert fresh.command("evaluate", ".").exit_code == 0
    after = fresh.settings.warehouse.stat()
    assert after.st_ino == built.st_ino
    assert after.st_mtime_ns > built.st_mtime_ns
    assert is_current(fresh.settings)
    counted = "SELECT count(*) AS n, count(*) FILTER (is_current) AS now FROM evaluations"
    assert ask(fresh.settings.warehouse, counted) == [{"n": 2, "now": 1}]
    numbers = kept(fresh.settings.warehouse)
    flip_below_the_file_system(fresh.settings.warehouse)
    assert fresh.command("evaluate", ".").exit_code == 0
    assert fresh.settings.warehouse.stat().st_ino != built.st_ino
    assert is_current(fresh.settings)
    assert kept(fresh.settings.warehouse) == numbers
