"""One bit of a store is wrong: whatever reads it says so in one line, or shows what it showed.

``RAG_ASSETS_FLIPS`` is how many bits are tried; 500 is a test for a person who waits.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import Result

from rag_assets.errors import StoreError
from rag_assets.pipeline.warehouse_time import is_current
from tests.cli.conftest import Invoke, warehouse_rows
from tests.tiny_experiment import Tiny

FLIPS = int(os.environ.get("RAG_ASSETS_FLIPS", "100"))
SEED = int(os.environ.get("RAG_ASSETS_FLIP_SEED", "0"))
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
    """Put the store back as it was: all of it, or one file."""
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
    content = bytearray(file.read_bytes())
    place, bit = chance.randrange(len(content)), chance.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"{file}: bit {bit} of byte {place} of {len(content)}"


@pytest.mark.slow
def test_a_wrong_bit_is_harmless_or_repaired_or_one_line(
    damaged: Damaged, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(SEED)
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
