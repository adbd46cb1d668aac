"""Several processes on one store, and stores that cannot be read or written."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from rag_assets.pipeline.evaluations import FOLDER, read_current, read_evaluation
from tests.dagster_state import counts, not_fresh
from tests.forked import ROOT, Forks, Place
from tests.tiny_experiment import Tiny

READER = """
import sys, time, duckdb
from pathlib import Path
file, stop = Path(sys.argv[1]), Path(sys.argv[2])
served = refused = 0
while not stop.exists():
    if not file.exists():
        continue
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            (n,) = connection.execute("SELECT count(*) FROM query_metrics").fetchone()
            assert n > 0
            served += 1
    except duckdb.IOException as error:
        refused += 1
    time.sleep(0.02)  # else it takes a core from what is evaluated
print(served, refused)
"""


@pytest.fixture(scope="module")
def evaluated(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("concurrency") / "master")
    kept = {name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole", "hybrid")}
    tiny.config |= {"retrievers": kept, "top_k": [3], "primary": "ndcg@3", "metrics": ["ndcg"]}
    tiny.write()
    assert evaluate(forks, tiny) == 0, log(tiny)
    return tiny


@pytest.fixture
def tiny(evaluated: Tiny, tmp_path: Path) -> Tiny:
    return evaluated.copy_to(tmp_path / "tiny")


def start(forks: Forks, tiny: Tiny, name: str = "log", largest_file: int | None = None) -> int:
    place = Place(str(tiny.root / name), largest_file=largest_file)
    return forks.start(place, "evaluate", str(tiny.folder), "--store", str(tiny.root / "store"))


def evaluate(forks: Forks, tiny: Tiny) -> int:
    return forks.wait(start(forks, tiny))


def log(tiny: Tiny, name: str = "log") -> str:
    return (tiny.root / name).read_text(encoding="utf-8")


def empty(tiny: Tiny) -> None:
    shutil.rmtree(tiny.root / "store")


@pytest.mark.slow
def test_two_evaluations_at_once_share_the_work(forks: Forks, tiny: Tiny) -> None:
    before = read_current(tiny.artifacts)
    empty(tiny)
    both = [start(forks, tiny, name) for name in ("first", "second")]
    assert [forks.wait(one) for one in both] == [0, 0], log(tiny, "first") + log(tiny, "second")
    found = [read_evaluation(file) for file in (tiny.artifacts / FOLDER).glob("*.json")]
    assert [one.content for one in found] == [before.content, before.content]
    assert all(one.complete for one in found)
    # A lock is held while an object is computed, so each is computed once.
    assert sum(one.computed for one in found) == len({entry.path for entry in before.entries})
    assert set(counts(tiny).values()) <= {1, 2}
    assert not_fresh(tiny) == {}


@pytest.mark.slow
def test_a_reader_is_served_while_the_warehouse_is_written(forks: Forks, tiny: Tiny) -> None:
    stop = tiny.root / "stop"
    command = [sys.executable, "-c", READER, str(tiny.settings.warehouse), str(stop)]
    reader = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    for k1 in (0.4, 0.9):
        tiny.configure("bm25", k1=k1)
        assert evaluate(forks, tiny) == 0, log(tiny)
    stop.touch()
    output, _ = reader.communicate(timeout=60)
    served, refused = map(int, output.split())
    assert reader.returncode == 0
    assert served > 0
    assert refused == 0


@pytest.mark.slow
def test_a_reader_that_keeps_the_warehouse_open_sees_one_state(forks: Forks, tiny: Tiny) -> None:
    query = "SELECT count(*), sum(value) FROM query_metrics UNPIVOT (value FOR name IN (ndcg))"
    with closing(duckdb.connect(str(tiny.settings.warehouse), read_only=True)) as connection:
        before = connection.execute(query).fetchall()
        tiny.configure("hybrid", k=1, weights=[0, 1])
        tiny.configure("bm25", analyzer="whitespace")
        assert evaluate(forks, tiny) == 0, log(tiny)
        assert connection.execute(query).fetchall() == before


def one_line(tiny: Tiny) -> str:
    lines = log(tiny).strip().splitlines()
    assert len(lines) == 1, log(tiny)
    return lines[0]


def test_a_full_disk_is_one_line_and_loses_nothing(
    forks: Forks, evaluated: Tiny, tiny: Tiny
) -> None:
    before = read_current(tiny.artifacts)
    tiny.write_document("long.md", "".join(f"Word{n} " for n in range(40_000)))
    assert forks.wait(start(forks, tiny, largest_file=200_000)) == 3, log(tiny)
    assert one_line(tiny).startswith("error: cannot write ")
    assert one_line(tiny).endswith(("File too large", "disk I/O error", "disk is full"))
    assert read_current(tiny.artifacts) == before
    assert not list((tiny.root / "store").rglob("*.tmp-*"))
    (tiny.folder / "long.md").unlink()
    assert evaluate(forks, tiny) == 0
    assert read_current(tiny.artifacts).content == before.content


def test_what_is_removed_in_mid_run_is_a_line_or_nothing_and_comes_back(
    forks: Forks, tiny: Tiny
) -> None:
    before = read_current(tiny.artifacts).content
    empty(tiny)
    process = start(forks, tiny)
    deadline = time.monotonic() + 60
    while not tiny.objects("relevant_units").is_dir() and time.monotonic() < deadline:
        time.sleep(0.005)
    shutil.rmtree(tiny.objects("chunks"))
    code = forks.wait(process)
    if code:
        assert one_line(tiny).startswith("error: ")
        assert evaluate(forks, tiny) == 0, log(tiny)
    assert evaluate(forks, tiny) == 0
    assert read_current(tiny.artifacts).content == before
