"""No path is a pattern, an address or markup: a store is the folder that was named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from click.testing import Result

from tests.beir_folder import write_beir

Invoke = Callable[..., Result]

NAME = "s[1] it's ?%41* # {b}$&;[bold]"
NEIGHBOUR = "s1 it's x%41y # {b}$&;b"
"""What the name would match, were it a pattern."""

CONFIG = "retrievers: {%s: {type: bm25, analyzer: english, k1: %s}}\ntop_k: [1, 3]\n"
READ = ("leaderboard", "history", "plan")
RELATIONS = ("leaderboard", "documents", "runs", "evaluations", "history", "measurements")


def evaluated(invoke: Invoke, folder: Path, store: Path) -> list[dict[str, Any]]:
    """Return the leaderboard without what another evaluation of the same gives otherwise."""
    result = invoke("evaluate", folder, "--store", store, "--format", "json")
    assert result.exit_code == 0, result.output
    other = dict.fromkeys(("evaluation_id", "started", "cost_time"))
    return [{**row, **other} for row in json.loads(result.stdout)]


def read(store: Path) -> dict[str, Any]:
    """Return how many rows a warehouse has of which retrievers, opened where it lies.

    DuckDB itself cannot open a file for writing below a folder whose name holds a question mark.
    """
    with duckdb.connect(str(store / "warehouse.duckdb"), read_only=True) as connection:
        counts = {
            name: connection.sql(f"SELECT count(*) FROM {name}").fetchall() for name in RELATIONS
        }
        names = connection.sql("SELECT DISTINCT retriever FROM history").fetchall()
    return {**counts, "retrievers": names}


def test_a_store_is_not_its_neighbour(invoke: Invoke, tmp_path: Path) -> None:
    place = tmp_path / "stores"
    other = write_beir(tmp_path / "tiny", {"experiment.yaml": CONFIG % ("other", 2)})
    evaluated(invoke, other, place / NEIGHBOUR)
    folder = write_beir(tmp_path / "of[1]*" / "tiny", {"experiment.yaml": CONFIG % ("own", 1)})
    shown = evaluated(invoke, folder, place / NAME)
    assert evaluated(invoke, folder, tmp_path / "plain") == shown
    assert {row["retriever"] for row in shown} == {"own"}
    for command in READ:
        ours, plain = (
            invoke(command, folder, "--store", store)
            for store in (place / NAME, tmp_path / "plain")
        )
        assert (ours.exit_code, ours.stderr) == (0, "")
        assert len(ours.stdout.splitlines()) == len(plain.stdout.splitlines()), ours.stdout
        assert "other" not in ours.stdout
    assert read(place / NAME) == read(tmp_path / "plain")
    assert {path.name for path in place.iterdir()} == {NEIGHBOUR, NAME}


def test_a_backslash_is_refused_before_anything_is_written(invoke: Invoke, tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": CONFIG % ("own", 1)})
    result = invoke("evaluate", folder, "--store", tmp_path / "a\\b")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        f"error: cannot use the store {tmp_path}/a\\b: "
        "DuckDB takes the backslash in its path for the end of a folder's name\n"
    )
    assert not (tmp_path / "a\\b").exists()
