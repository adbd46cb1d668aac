"""Tables fit a terminal of 80 columns, and are whole lines in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from tests.beir_folder import write_beir
from tests.terminal import ESCAPE, written_to_terminal

LONG = "what_the_search_in_production_returned_in_november"
YAML = f"retrievers: {{bm25: {{type: bm25}}, {LONG}: {{type: bm25, k1: 2}}}}\n"
COMMANDS = ("leaderboard", "compare", "history", "plan", "attribution", "gate --against baseline")

NARROW = ("leaderboard --latency", "leaderboard --ties", "leaderboard --budget 50")
NUMBER = re.compile(r"[+-]?\d+\.\d+")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, invoke: Callable[..., Result]) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    write_beir(folder / "tiny", {"experiment.yaml": YAML})
    done = invoke("evaluate", folder / "tiny", "--store", folder / "store")
    assert done.exit_code == 0, done.output
    return folder


def piped(folder: Path, command: str, columns: str | None) -> str:
    name, *rest = command.split()
    environment = {"COLUMNS": columns, "NO_COLOR": None, "FORCE_COLOR": None}
    words = [name, str(folder / "tiny"), *rest, "--store", str(folder / "store")]
    result = CliRunner(env=environment).invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", [*COMMANDS, *NARROW])
def test_a_table_fits_and_every_number_in_it_is_whole(evaluated: Path, command: str) -> None:
    whole = set(NUMBER.findall(piped(evaluated, command, None)))
    for columns in (80, 60, 40):
        text = piped(evaluated, command, str(columns))
        assert max(map(len, text.splitlines())) <= columns
        assert "…" not in text
        assert set(NUMBER.findall(text)) <= whole


def test_what_a_narrow_terminal_leaves_out_is_said(evaluated: Path) -> None:
    text = piped(evaluated, "leaderboard", "40")
    told = "not shown, the terminal is too narrow: recall, precision, map, tokens@10, ms/query"
    assert told in " ".join(text.split())
    head = next(line for line in text.splitlines() if line.startswith("# "))
    assert head.split() == [
        "#",
        "retriever",
        "hit_rate",
        "mrr",
        "ndcg*",
    ]  # the primary metric stays
    assert "not shown" not in piped(evaluated, "leaderboard", None)


@pytest.mark.parametrize("command", COMMANDS)
def test_in_a_pipe_a_row_is_a_line_without_blanks_at_its_end(evaluated: Path, command: str) -> None:
    text = piped(evaluated, command, None)
    assert LONG in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert "\x1b" not in text


def test_a_terminal_marks_the_best_value_and_no_color_leaves_it_bold(evaluated: Path) -> None:
    words = ["leaderboard", str(evaluated / "tiny"), "--store", str(evaluated / "store")]
    shown = []
    for variable in ("COLORTERM", "NO_COLOR"):
        variables = {"NO_COLOR": None, variable: "1"}
        shown.append(written_to_terminal(["-m", "rag_assets.cli", *words], variables))
    colour, bold = shown
    assert "\x1b[1;32m" in colour
    assert "\x1b[1m" in bold
    assert not re.search(r"\x1b\[[\d;]*3\dm", bold)
    assert ESCAPE.sub("", colour) == ESCAPE.sub("", bold)


def test_an_evaluation_says_what_is_computed_and_leaves_the_table(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": "retrievers: {b: {type: bm25}}\n"})
    words = ["evaluate", str(folder), "--store", str(tmp_path / "store")]
    written = ESCAPE.sub("", written_to_terminal(["-m", "rag_assets.cli", *words], {}))
    lines = [line.strip() for line in re.split(r"[\r\n]+", written)]
    assert any(re.search(r" 0:\d\d \d+ of at most \d+ computed  \w+", line) for line in lines)
    (title,) = [n for n, line in enumerate(lines) if line.startswith("tiny: top_k 10, mean over")]
    assert max(map(len, lines[:title])) <= 80
    assert title > max(number for number, line in enumerate(lines) if " computed  " in line)
