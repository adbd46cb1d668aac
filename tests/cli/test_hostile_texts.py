"""Texts and paths are data: no command hands a terminal anything that it obeys."""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from pathlib import Path

import dagster
import duckdb
import pytest

from rag_assets.assets.reports import evaluations
from rag_assets.checks.check import Check, CheckOutcome, CheckResult
from rag_assets.plain_text import one_line
from rag_assets.store.artifacts import ArtifactKey
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke
from tests.forked import Forks
from tests.terminal import ESCAPE, forked_to_terminal

PACKAGE = Path(__file__).parents[2] / "rag_assets"

LINK = "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07"
HOSTILE = (
    "[/tag]",
    "[red]x[/red]",
    ":bomb:",
    LINK,
    "\x9b2J",
    "gpj\u202eexe",
    "=1+1|`x`",
    "a\u2028b",
)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

COMMANDS = (
    "evaluate",
    "leaderboard",
    "leaderboard --by tag",
    "leaderboard --by tag --format csv",
    "leaderboard --by tag --format json",
    "leaderboard --by tag --format markdown",
    "leaderboard --by document.kind --format markdown",
    "attribution --queries",
    "attribution --queries --format markdown",
    "compare a b",
    "compare a b --format json",
    "validate",
    "validate --format markdown",
    "validate --format json",
    "plan --all",
    "history",
)


def _line(key: str, text: str, **fields: object) -> str:
    return json.dumps({"_id": key, "text": text, **fields}) + "\n"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> tuple[Path, Path]:
    """A data set whose ids, tags, titles, texts and metadata a terminal would obey."""
    root = tmp_path_factory.mktemp("hostile")
    ids = [text.replace("\u2028", " ") for text in HOSTILE]
    documents = [
        _line(f"d {own}", f"ferry {text}", title=text, metadata={"kind": text})
        for own, text in zip(ids, HOSTILE, strict=True)
    ]
    queries = [
        _line(f"q {own}", f"ferry {text}", metadata={"tags": [text]})
        for own, text in zip(ids, HOSTILE, strict=True)
    ]
    labels = [f"q {one}\td {other}\t1\n" for one, other in pairwise(ids)]
    yaml = "retrievers: {a: {type: bm25}, b: {type: bm25, k1: 3, b: 0}}\ntop_k: [1, 2]\n"
    changes = {
        "corpus.jsonl": "".join(documents),
        "queries.jsonl": "".join(queries),
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + "".join(labels),
        "experiment.yaml": yaml,
    }
    folder = write_beir(root / "tiny", changes)
    done = invoke("evaluate", folder, "--store", root / "store")
    assert done.exit_code == 0, done.output
    return folder, root / "store"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_hands_on_what_a_terminal_obeys(
    invoke: Invoke, hostile: tuple[Path, Path], command: str
) -> None:
    folder, store = hostile
    name, *words = command.split()
    result = invoke(name, folder, *words, "--store", store)
    assert result.exit_code in (0, 1), result.output
    assert not isinstance(result.exception, Exception), result.exception
    found = OBEYED.search(result.output)
    is_data = "csv" in words  # into a pipe, to the character
    assert found is None or is_data, result.output[found.start() - 60 :][:120]
    if "--by" in words:
        assert ("'=1+1|`x`" if is_data else "=1+1") in result.stdout


def test_a_terminal_gets_csv_without_what_it_obeys(
    hostile: tuple[Path, Path], forks: Forks
) -> None:
    folder, store = hostile
    words = f"leaderboard {folder} --store {store} --by tag --format csv".split()
    written = forked_to_terminal(forks, words, {"NO_COLOR": "1"})
    assert one_line(LINK) in written
    assert not OBEYED.search(ESCAPE.sub("", written).replace("\r\n", "\n"))


def test_checks_in_dagster_show_problems_as_they_are() -> None:
    check = Check("labels", "Labels are whole.", lambda *_: CheckOutcome([]))
    asset = dagster.AssetKey(["tiny", "qrels"])
    for problems in ([f"query '{LINK}' <b>[x](http://y)"], ["*a*\n# b", "`c`"]):
        key = ArtifactKey("qrels")
        (event,) = evaluations(asset, [CheckResult(check, key, CheckOutcome(problems))])
        shown = [str(event.description), str(event.metadata["found"].value)]
        assert not [text for text in shown if OBEYED.search(text)]
        for text in shown:
            assert "](" not in text.replace("\\](", "")
            assert not re.search(r"(?<!\\)[<*`]", text)


def test_all_that_is_printed_goes_through_one_place() -> None:
    """Consoles and echoes of other modules would hand on what they are given."""
    allowed = {"terminal.py": {"Console", "echo"}, "main.py": {"echo"}, "notebook.py": {"Console"}}
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(source)) if re.search("Console|echo", source) else ()
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
        assert names & {"Console", "echo", "secho"} <= allowed.get(file.name, set()), file


NAME = "s[1] it's ?%41* # {b}$&;[bold]"
NEIGHBOUR = "s1 it's x%41y # {b}$&;b"
"""What the name would match, were it a pattern."""

CONFIG = "retrievers: {%s: {type: bm25, analyzer: english, k1: %s}}\ntop_k: [1, 3]\n"


def test_a_store_is_not_its_neighbour(invoke: Invoke, tmp_path: Path) -> None:
    """DuckDB opens its file where it lies: it writes none below a folder with a question mark."""
    place = tmp_path / "stores"
    other = write_beir(tmp_path / "tiny", {"experiment.yaml": CONFIG % ("other", 2)})
    assert invoke("evaluate", other, "--store", place / NEIGHBOUR).exit_code == 0
    folder = write_beir(tmp_path / "of[1]*" / "tiny", {"experiment.yaml": CONFIG % ("own", 1)})
    for command in ("evaluate", "leaderboard", "history", "plan"):
        result = invoke(command, folder, "--store", place / NAME)
        assert (result.exit_code, "error: " in result.stderr) == (0, False), result.stderr
        assert "own" in result.stdout
        assert not re.search(r"\bother\b", result.stdout)
    with duckdb.connect(str(place / NAME / "warehouse.duckdb"), read_only=True) as connection:
        for name in ("leaderboard", "history"):
            assert connection.sql(f"SELECT DISTINCT retriever FROM {name}").fetchall() == [("own",)]
        assert connection.sql("SELECT count(*) FROM documents").fetchall() == [(4,)]
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
