"""Evaluations that are killed, and stores of which one bit is wrong."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pytest
from click.testing import Result

from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import StoreError
from rag_assets.models.encoder import Encoder
from rag_assets.pipeline.evaluations import FOLDER, read_current, read_evaluation
from rag_assets.pipeline.history import History
from rag_assets.pipeline.warehouse_time import is_current
from rag_assets.store.artifacts import Artifact, read_manifest
from tests.cached_vectors import VectorCache
from tests.cli.conftest import Invoke, warehouse_rows
from tests.dagster_state import not_fresh
from tests.forked import Forks, Place
from tests.pipeline.matrix_experiment import DOCUMENTS, JUDGMENTS, QUERIES, Matrix
from tests.tiny_experiment import Tiny

CRASHES = int(os.environ.get("RAG_ASSETS_CRASHES", "3"))
SEED = int(os.environ.get("RAG_ASSETS_CRASH_SEED", "0"))
MOST_IN_A_ROW = 3
NO_RESULTS = ("measurements", "history", FOLDER)


class Undisturbed(NamedTuple):
    """An evaluation that ran to its end, and how long it took."""

    matrix: Matrix
    content: str
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    matrix = Matrix(tmp_path_factory.mktemp("crashes") / "undisturbed")
    matrix.config |= {"top_k": [3], "metrics": ["ndcg"]}
    matrix.config["retrievers"]["dense"] = {"type": "embedding", "chunking": "parts"}
    matrix.write_files()
    fix_vectors(matrix)
    started = time.perf_counter()
    assert evaluate(forks, matrix) == 0, (matrix.root / "log").read_text()
    seconds = time.perf_counter() - started
    assert matrix.n_vectors() == len(DOCUMENTS) + len(QUERIES)
    return Undisturbed(matrix, read_current(matrix.artifacts).content, seconds)


def fix_vectors(matrix: Matrix) -> None:
    """Put vectors of all texts into the cache, so that none is embedded and no model is loaded."""
    cache = matrix.root / "store" / "cache" / "embeddings"
    chance = np.random.default_rng(SEED)
    encoder = Encoder()
    spaces = (encoder.space("document"), encoder.space("query"))
    for space, rows in zip(spaces, (DOCUMENTS, QUERIES), strict=True):
        vectors = chance.normal(size=(len(rows), 384))
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        VectorCache(cache, space).put([row["text"] for row in rows], unit.astype(np.float32))


def evaluate(forks: Forks, matrix: Matrix) -> int:
    return forks.wait(start(forks, matrix))


def start(forks: Forks, matrix: Matrix) -> int:
    store = str(matrix.root / "store")
    return forks.start(matrix.root / "log", "evaluate", str(matrix.folder), "--store", store)


def start_over(matrix: Matrix) -> None:
    for place in (matrix.root / "store").iterdir():
        if place.name != "cache":
            shutil.rmtree(place) if place.is_dir() else place.unlink()


@pytest.mark.slow
def test_what_was_killed_goes_on_as_if_nothing_had_happened(
    forks: Forks, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    left, n_killed = CRASHES, 0
    while left > 0:
        in_a_row = min(left, chance.randint(1, MOST_IN_A_ROW))
        matrix = copy_of(undisturbed.matrix, tmp_path / f"killed-{left}")
        prepare(matrix, chance)
        for _ in range(in_a_row):
            n_killed += kill_at(forks, matrix, chance.uniform(0, undisturbed.seconds))
            check_nothing_is_corrupt(matrix)
        check_the_rest_is_done(forks, matrix, undisturbed)
        left -= in_a_row
        if left == 0:
            assert not_fresh(matrix) == {}
        shutil.rmtree(matrix.root)
    assert n_killed > 0


def kill_before(forks: Forks, matrix: Matrix, write: int) -> bool:
    """Kill an evaluation before a write, counted from its snapshot on; return whether it was."""
    place = Place(str(matrix.root / "log"), killed_at=write)
    store = str(matrix.root / "store")
    return forks.run(place, "evaluate", str(matrix.folder), "--store", store) < 0


def copy_of(matrix: Matrix, root: Path) -> Matrix:
    return Matrix(root, matrix.copy_to(root).config)


def prepare(matrix: Matrix, chance: random.Random) -> None:
    """Begin with an empty store, or with one that lacks something."""
    if chance.random() < 0.7:
        start_over(matrix)
    else:
        shutil.rmtree(matrix.objects(chance.choice(["lexical_runs", "metrics", "chunks"])))


def kill_at(forks: Forks, matrix: Matrix, seconds: float) -> bool:
    """Kill an evaluation after some time; return whether it was still at work."""
    process = start(forks, matrix)
    time.sleep(seconds)
    forks.kill(process)
    return forks.wait(process) < 0


def check_nothing_is_corrupt(matrix: Tiny) -> None:
    for path in results(matrix):
        manifest = read_manifest(path)
        assert manifest is not None, path
        assert Artifact(path, manifest).is_intact(), path
    for snapshot in (matrix.artifacts / FOLDER).glob("*.json"):
        assert read_evaluation(snapshot).entries
    if (matrix.artifacts / "current").exists():
        read_current(matrix.artifacts)
    if matrix.settings.warehouse.exists():
        with closing(duckdb.connect(str(matrix.settings.warehouse), read_only=True)) as connection:
            assert connection.execute("SELECT count(*) FROM evaluations").fetchone()


def check_the_rest_is_done(forks: Forks, matrix: Matrix, undisturbed: Undisturbed) -> None:
    stored = {path: path.stat().st_mtime_ns for path in results(matrix)}
    wanted = read_current(undisturbed.matrix.artifacts).entries
    # Partitions that are equal have one artifact.
    missing = {e.path for e in wanted if matrix.settings.store / e.path not in stored}
    assert evaluate(forks, matrix) == 0, (matrix.root / "log").read_text()
    evaluation = read_current(matrix.artifacts)
    assert evaluation.content == undisturbed.content
    assert evaluation.computed == len(missing)
    for path, changed in stored.items():
        assert path.stat().st_mtime_ns == changed, path
    assert content_of(matrix) == content_of(undisturbed.matrix)
    check_what_is_shown(matrix, undisturbed.matrix)


def check_what_is_shown(matrix: Matrix, undisturbed: Matrix) -> None:
    """The warehouse, the leaderboard and the history say what those of an undisturbed run say."""
    assert is_current(matrix.settings)
    assert warehouse_rows(matrix.settings) == warehouse_rows(undisturbed.settings)
    boards = [EvaluationResult.current(one.artifacts).leaderboard for one in (matrix, undisturbed)]
    assert boards[0].equals(boards[1])
    assert history_of(matrix) == history_of(undisturbed)


def history_of(matrix: Matrix) -> list[set[tuple[object, ...]]]:
    """The values of each evaluation; one that was killed at its very end may stand there too."""
    states: dict[str, set[tuple[object, ...]]] = {}
    for row in History(matrix.artifacts, matrix.settings.locks).metric("ndcg", 3):
        value = row["retriever"], row["split"], row["value"], row["n_queries"]
        states.setdefault(row["evaluation_id"], set()).add(value)
    return [state for state, _ in groupby(states.values())]


@pytest.mark.slow
def test_killed_between_any_two_writes_at_the_end(
    forks: Forks, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    changed = copy_of(undisturbed.matrix, tmp_path / "changed")
    changed.write_rows("judgments.jsonl", JUDGMENTS[1:])
    assert evaluate(forks, changed) == 0, (changed.root / "log").read_text()
    before = warehouse_rows(undisturbed.matrix.settings)
    assert warehouse_rows(changed.settings)["query_metrics"] != before["query_metrics"]
    computed = copy_of(undisturbed.matrix, tmp_path / "computed")
    computed.write_rows("judgments.jsonl", JUDGMENTS[1:])
    assert kill_before(forks, computed, 0)
    for write in range(1, 20):
        matrix = copy_of(computed, tmp_path / f"write-{write}")
        killed = kill_before(forks, matrix, write)
        check_nothing_is_corrupt(matrix)
        assert evaluate(forks, matrix) == 0, (matrix.root / "log").read_text()
        check_what_is_shown(matrix, changed)
        shutil.rmtree(matrix.root)
        if not killed:
            break
    # The snapshot, the history, the pointer, the warehouse, the report.
    assert 6 <= write < 19


def results(matrix: Tiny) -> list[Path]:
    found: list[Path] = []
    for path in matrix.objects("").rglob("*"):
        parts = path.relative_to(matrix.objects("")).parts
        if parts[0] in NO_RESULTS or any(".tmp-" in part for part in parts):
            continue
        is_inside = any((parent / "manifest.json").exists() for parent in path.parents)
        if not is_inside and (path.suffix == ".parquet" or (path / "manifest.json").exists()):
            found.append(path)
    return found


def content_of(matrix: Tiny) -> dict[str, bytes]:
    files = [f for path in results(matrix) for f in ([path] if path.is_file() else path.rglob("*"))]
    return {f.relative_to(matrix.settings.store).as_posix(): f.read_bytes() for f in files}


FLIPS = int(os.environ.get("RAG_ASSETS_FLIPS", "100"))
FLIP_SEED = int(os.environ.get("RAG_ASSETS_FLIP_SEED", "0"))
EVALUATED_EVERY = 10

READERS: dict[str, tuple[str, ...]] = {
    "leaderboard": ("--format", "json"),
    "gate": ("--against", "previous", "--format", "json"),
    "export-run": ("--retriever", "hybrid", "--out", "OUT"),
    "diff": ("previous", "latest", "--format", "json"),
    "compare": ("bm25", "okapi", "--format", "json"),
    "history": ("--format", "json"),
    "report": ("--out", "OUT"),
    "attribution": ("--format", "json"),
}


class Shown(NamedTuple):
    """What a command said, and the file that it wrote."""

    code: int
    output: str
    written: bytes


class Damaged(NamedTuple):
    """A store that was evaluated twice, and what is shown of it."""

    tiny: Tiny
    ask: Callable[[str], tuple[Result, Shown]]
    undisturbed: dict[str, Shown]
    tables: dict[str, list[object]]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> Damaged:
    root = tmp_path_factory.mktemp("damaged")
    tiny = Tiny(root / "tiny")
    tiny.config["statistics"] = {"resamples": 100}
    tiny.write()
    out = root / "out"

    def run(command: str, *arguments: str) -> Result:
        return invoke(command, tiny.folder, *arguments, "--store", tiny.settings.store)

    def ask(command: str) -> tuple[Result, Shown]:
        out.unlink(missing_ok=True)
        arguments = [str(out) if a == "OUT" else a for a in READERS.get(command, ())]
        result = run(command, *arguments)
        return result, Shown(
            result.exit_code, result.stdout, out.read_bytes() if out.exists() else b""
        )

    assert run("evaluate").exit_code == 0
    tiny.configure("bm25", k1=0.9)
    assert run("evaluate").exit_code == 0
    shown = {command: ask(command)[1] for command in READERS}
    assert {command: one.code for command, one in shown.items()} == dict.fromkeys(READERS, 0)
    return Damaged(tiny, ask, shown, warehouse_rows(tiny.settings))


@contextmanager
def restored(tiny: Tiny, whole: bool, flipped: Path) -> Iterator[None]:
    kept = tiny.root / "kept"
    if whole:
        shutil.copytree(tiny.settings.store, kept, symlinks=True)
    content = flipped.read_bytes()
    try:
        yield
    finally:
        if whole:
            shutil.rmtree(tiny.settings.store)
            kept.rename(tiny.settings.store)
        else:
            flipped.write_bytes(content)


def flip(file: Path, chance: random.Random) -> str:
    """Flip a bit, as a disk does: the file's time of modification stays."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    place, bit = chance.randrange(len(content)), chance.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{file}: bit {bit} of byte {place} of {len(content)}"


@pytest.mark.slow
def test_a_wrong_bit_is_harmless_or_repaired_or_one_line(
    damaged: Damaged, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(FLIP_SEED)
    wrong: list[str] = []
    store = damaged.tiny.settings.store
    files = sorted(file for file in store.rglob("*") if file.is_file() and file.stat().st_size)
    for number in range(FLIPS):
        file = chance.choice(files)
        evaluated = number % EVALUATED_EVERY == 0
        command = "evaluate" if evaluated else chance.choice(list(READERS))
        with restored(damaged.tiny, evaluated, file):
            where = f"{command}, {flip(file, chance)}"
            caplog.clear()
            result, shown = damaged.ask(command)
            is_told = "is damaged" in caplog.text
            wrong += [f"{where}: {p}" for p in problems(damaged, command, result, shown, is_told)]
            if evaluated and shown.code == 0:
                wrong += [f"{where}: then {p}" for p in after_evaluation(damaged)]
    assert wrong == []


def problems(
    damaged: Damaged, command: str, result: Result, shown: Shown, is_told: bool = False
) -> list[str]:
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return [f"traceback {result.exception!r}"]
    if shown.code == 0:
        same = command == "evaluate" or shown == damaged.undisturbed[command]
        return [] if is_told or same else [f"other output: {shown.output[:2000]}"]
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    if shown.code != StoreError.exit_code or len(errors) != 1:
        return [f"exit {shown.code}: {result.stderr}"]
    return []


def undated(shown: Shown) -> Shown:
    """Leave out which evaluation it is of, and what was measured in it."""
    names = "evaluation_id|started|cost_time"
    output = re.sub(rf'^ *"(?:{names})": .*\n', "", shown.output, flags=re.M)
    return shown._replace(output=output)


def after_evaluation(damaged: Damaged) -> list[str]:
    """The numbers are those of a store in which nothing was wrong."""
    found = []
    if not is_current(damaged.tiny.settings):
        found.append("the warehouse is not up to date")
    now = warehouse_rows(damaged.tiny.settings)
    found += [f"{name} differs" for name in damaged.tables if damaged.tables[name] != now.get(name)]
    for command in ("leaderboard", "export-run"):
        result, shown = damaged.ask(command)
        found += [
            f"{command}: {p}" for p in problems(damaged, command, result, shown, is_told=True)
        ]
        if undated(shown) != undated(damaged.undisturbed[command]):
            found.append(f"{command} differs: {result.output[:500]}")
    return found
