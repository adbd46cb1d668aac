from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.pipeline.warehouse_time import is_current
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import DOCUMENTS, Tiny

TOP_K = (1, 3, 5)

READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
count = lambda: connection.sql("SELECT count(*) FROM leaderboard").fetchall()[0][0]
print(count(), flush=True)
for line in sys.stdin:
    print(count(), flush=True)
"""


def ask(warehouse: Path, statement: str) -> list[dict[str, Any]]:
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        rows: list[dict[str, Any]] = connection.sql(statement).to_arrow_table().to_pylist()
    return rows


def test_numbers_are_those_of_the_artifacts(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    for retriever in tiny.config["retrievers"]:
        where = f"WHERE experiment = 'tiny' AND retriever = '{retriever}'"
        for top_k in tiny.config["top_k"]:
            found = ask(
                warehouse,
                f"SELECT * EXCLUDE (experiment, retriever, top_k) FROM "
                f"query_metrics {where} AND top_k = {top_k} ORDER BY query_id",
            )
            key = ArtifactKey.of("metrics", retriever=retriever, top_k=top_k)
            assert found == tiny.rows(key)
        found = ask(
            warehouse,
            f"SELECT * EXCLUDE (experiment, retriever) FROM metrics_summary {where} ORDER BY top_k",
        )
        assert found == tiny.rows(ArtifactKey.of("metrics_summary", retriever=retriever))
        found = ask(
            warehouse,
            f"SELECT * EXCLUDE (experiment, retriever) FROM intervals {where} ORDER BY ALL",
        )
        key = ArtifactKey.of("intervals", retriever=retriever)
        assert found == sorted(tiny.rows(key), key=lambda row: (row["top_k"], row["metric"]))
    pairs = ask(warehouse, "SELECT * EXCLUDE experiment FROM comparisons")
    assert pairs == tiny.rows(ArtifactKey.of("comparisons"))
    board = ask(warehouse, "SELECT * EXCLUDE experiment FROM leaderboard")
    assert board == tiny.rows(ArtifactKey.of("leaderboard"))


def test_views_show_what_the_snapshot_names(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    documents = ask(warehouse, "SELECT * EXCLUDE experiment FROM documents ORDER BY document_id")
    assert documents == sorted(tiny.rows(DOCUMENTS_KEY), key=lambda row: row["document_id"])
    queries = ask(warehouse, "SELECT * EXCLUDE experiment FROM queries ORDER BY query_id")
    assert queries == tiny.rows(QUERIES_KEY)
    run = ask(
        warehouse,
        "SELECT * EXCLUDE (experiment, retriever, top_k) FROM runs WHERE "
        "retriever = 'hybrid' AND top_k = 3 ORDER BY query_id, rank",
    )
    assert run == tiny.rows(ArtifactKey.of("fused_runs", retriever="hybrid", top_k=3))
    counts = ask(warehouse, "SELECT retriever, count(DISTINCT top_k) AS n FROM runs GROUP BY ALL")
    assert {row["retriever"]: row["n"] for row in counts} == dict.fromkeys(
        tiny.config["retrievers"], 3
    )
    for view in ("chunks", "relevant_units", "qrels"):
        assert ask(warehouse, f"SELECT count(*) AS n FROM {view}")[0]["n"] > 0


def test_history_and_measurements(tiny: Tiny) -> None:
    current = tiny.snapshot()
    warehouse = rebuild(tiny.settings)
    rows = ask(
        warehouse,
        "SELECT evaluation_id, is_current, complete, n_artifacts FROM evaluations ORDER BY started",
    )
    assert [row["is_current"] for row in rows] == [False, True]
    assert rows[-1]["evaluation_id"] == current.evaluation_id
    assert rows[-1]["complete"]
    assert rows[-1]["n_artifacts"] == 74
    measured = ask(warehouse, "SELECT what, count(*) AS n FROM measurements GROUP BY ALL")
    assert {"what": "metrics", "n": 15} in measured
    (built,) = ask(
        warehouse, "SELECT * FROM measurements WHERE what = 'lexical_index' AND retriever = 'okapi'"
    )
    assert list(built)[:3] == ["experiment", "asset", "retriever"]
    assert (built["experiment"], built["asset"], built["amount"]) == ("tiny", "lexical_index", 1)
    assert built["bytes"] > 0
    assert (built["p50_ms"], built["cached"], built["tokens"], built["cost"]) == (None,) * 4


def test_what_is_measured_after_a_rebuild_is_there_and_a_damaged_file_is_not(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    counted = "SELECT count(*) AS n, count(DISTINCT fingerprint) AS known FROM measurements"
    (before,) = ask(warehouse, counted)
    folder = tiny.settings.store / "measurements" / "search"
    measured = {"what": "search", "fingerprint": "1" * 64, "seconds": 2, "amount": 1}
    (folder / f"{'1' * 16}.json").write_text(json.dumps(measured))
    (folder / f"{'2' * 16}.json").write_text('{"what": "search", "finger')
    (after,) = ask(warehouse, counted)
    assert (after["n"], after["known"]) == (before["n"] + 1, before["known"] + 1)


def test_without_measurements_their_table_is_empty(tiny: Tiny) -> None:
    names = list(ask(rebuild(tiny.settings), "SELECT * FROM measurements LIMIT 1")[0])
    shutil.rmtree(tiny.settings.store / "measurements")
    warehouse = rebuild(tiny.settings)
    assert ask(warehouse, "SELECT * FROM measurements") == []
    described = ask(warehouse, "DESCRIBE measurements")
    assert [row["column_name"] for row in described] == names


def test_without_an_evaluation_it_is_empty(fresh: Tiny) -> None:
    assert ask(rebuild(fresh.settings), "SELECT * FROM evaluations") == []


def test_another_process_reads_on_while_it_is_rebuilt(tiny: Tiny) -> None:
    """The reader keeps the file that it opened; the next one sees the new file."""
    warehouse = rebuild(tiny.settings)
    command = [sys.executable, "-c", READER, str(warehouse)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == "15\n"
        opened = warehouse.stat().st_ino
        rebuild(tiny.settings)
        assert warehouse.stat().st_ino != opened
        reader.stdin.write("again\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "15\n"
        reader.stdin.close()
    assert reader.returncode == 0
    assert ask(warehouse, "SELECT count(*) AS n FROM leaderboard") == [{"n": 15}]


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
    leftovers = {file.name for file in tiny.settings.state_dir.iterdir() if "tmp" in file.name}
    assert leftovers == set()


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
    (meaning,) = ask(
        warehouse,
        "SELECT comment FROM duckdb_columns() "
        "WHERE table_name = 'terms' AND column_name = 'document_frequency'",
    )
    assert meaning == {"comment": "chunks that hold it"}


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


def truncate(warehouse: Path) -> None:
    warehouse.write_bytes(warehouse.read_bytes()[:-1000])


def flip(warehouse: Path) -> None:
    content = bytearray(warehouse.read_bytes())
    content[len(content) // 2] ^= 1
    warehouse.write_bytes(content)


def flip_below_the_file_system(warehouse: Path) -> None:
    before = warehouse.stat()
    flip(warehouse)
    os.utime(warehouse, ns=(before.st_atime_ns, before.st_mtime_ns))


def fill_with_text(warehouse: Path) -> None:
    warehouse.write_text("no database")


def leave_a_log(warehouse: Path) -> None:
    warehouse.with_name("warehouse.duckdb.wal").write_bytes(b"of another file")


DAMAGES = [truncate, flip, flip_below_the_file_system, fill_with_text, leave_a_log]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_damages_it_is_noticed_by_who_reads(
    tiny: Tiny, damage: Callable[[Path], object]
) -> None:
    warehouse = rebuild(tiny.settings)
    before = kept(warehouse)
    damage(warehouse)
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


def test_a_damaged_measurement_is_in_no_row(tiny: Tiny) -> None:
    warehouse = rebuild(tiny.settings)
    (before,) = ask(warehouse, "SELECT count(*) AS n FROM measurements")
    (file, *_) = sorted((tiny.settings.store / "measurements" / "metrics").glob("*.json"))
    file.write_bytes(file.read_bytes().replace(b'"amount": 1', b'"amount": 3'))
    (other, *_) = sorted((tiny.settings.store / "measurements" / "chunks").glob("*.json"))
    other.write_bytes(other.read_bytes().replace(b'"what"', b'"wh\xe1t"'))
    (after,) = ask(warehouse, "SELECT count(*) AS n FROM measurements")
    assert after["n"] == before["n"] - 2
