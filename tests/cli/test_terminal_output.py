"""What a terminal gets: tables of 80 columns, progress, and what --quiet and --verbose change."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.cli.progress_bars import progress_bar, rate_text, work_board
from tests.beir_folder import write_beir
from tests.cli.conftest import Invoke, RunProcess
from tests.forked import Forks
from tests.terminal import ESCAPE, forked_to_terminal, written_to_terminal

LONG = "what_the_search_in_production_returned_in_november"
YAML = f"retrievers: {{bm25: {{type: bm25}}, {LONG}: {{type: bm25, k1: 2}}}}\n"
COMMANDS = ("leaderboard", "compare", "history", "plan", "attribution", "gate --against latest")

NARROW = ("leaderboard --latency", "leaderboard --ties", "leaderboard --budget 50")
NUMBER = re.compile(r"[+-]?\d+\.\d+")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> Path:
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


@pytest.mark.parametrize("form", ["table", "json"])
def test_whoever_reads_no_further_changes_no_exit_code(wide: Path, form: str) -> None:
    words = f"-m rag_assets.cli gate tiny --against latest --store store --format {form}"
    shell = ["bash", "-o", "pipefail", "-c", f"'{sys.executable}' {words} | true"]
    assert subprocess.run(shell, cwd=wide, check=False).returncode == 0


@pytest.mark.parametrize("command", [*COMMANDS, *NARROW])
def test_a_table_fits_and_every_number_in_it_is_whole(wide: Path, command: str) -> None:
    """In a pipe a row is a line without blanks at its end."""
    in_a_pipe = piped(wide, command, None)
    assert not re.search(r"[ \t]$", in_a_pipe, re.MULTILINE)
    assert "\x1b" not in in_a_pipe
    if command in COMMANDS:
        assert LONG in in_a_pipe
    whole = set(NUMBER.findall(in_a_pipe))
    for columns in (80, 40):
        text = piped(wide, command, str(columns))
        assert max(map(len, text.splitlines())) <= columns
        assert "…" not in text
        assert set(NUMBER.findall(text)) <= whole


def test_a_terminal_marks_the_best_value_and_no_color_leaves_it_bold(
    wide: Path, forks: Forks
) -> None:
    words = ["leaderboard", str(wide / "tiny"), "--store", str(wide / "store")]
    colour, bold = (
        forked_to_terminal(forks, words, {"NO_COLOR": value, "COLORTERM": "1"})
        for value in ("", "1")
    )
    assert "\x1b[1;32m" in colour
    assert "\x1b[1m" in bold
    assert not re.search(r"\x1b\[[\d;]*3\dm", bold)
    assert ESCAPE.sub("", colour) == ESCAPE.sub("", bold)


def test_an_evaluation_says_what_is_computed_and_leaves_the_table(
    tmp_path: Path, forks: Forks
) -> None:
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": "retrievers: {b: {type: bm25}}\n"})
    words = ["evaluate", str(folder), "--store", str(tmp_path / "store")]
    written = ESCAPE.sub("", forked_to_terminal(forks, words))
    lines = [line.strip() for line in re.split(r"[\r\n]+", written)]
    assert any(re.search(r" 0:\d\d \d+ of at most \d+ computed  \w+", line) for line in lines)
    (title,) = [n for n, line in enumerate(lines) if line.startswith("tiny: top_k 10, mean over")]
    assert max(map(len, lines[:title])) <= 80
    assert title > max(number for number, line in enumerate(lines) if " computed  " in line)


def test_quiet_prints_the_result_and_nothing_else(invoke: Invoke, again: tuple[Path, Path]) -> None:
    folder, store = again
    usual = invoke("leaderboard", folder, "--store", store)
    quiet = invoke("evaluate", folder, "--store", store, "--quiet")
    assert quiet.exit_code == 0
    assert quiet.stderr == ""
    assert [line.split()[:-1] for line in quiet.stdout.splitlines()[:3]] == [
        line.split()[:-1] for line in usual.stdout.splitlines()[:3]
    ]
    assert "warehouse" not in quiet.stdout
    assert invoke("-q", "evaluate", "nowhere").stderr.startswith("error: ")


def test_verbose_says_each_partition_and_how_long_it_took(
    invoke: Invoke, tiny: Path, store: Path
) -> None:
    first = invoke("-v", "evaluate", tiny, "--store", store).stderr
    runs = r"computed lexical_runs\[retriever=bm25, top_k=\d+\]: \d+ rows in \d+\.\d\d s"
    assert len(re.findall(runs, first)) == 3
    assert re.search(r"search bm25: (\d+) of \1 in \d+\.\d\d s, [\d,.]+/(s|min)", first)
    assert re.search(r"evaluate took \d+\.\d\d s", first)
    assert "reuse " not in first
    again = invoke("evaluate", tiny, "--store", store, "--verbose").stderr
    assert "computed " not in again
    assert len(re.findall(r"reuse +lexical_runs\[", again)) == 3


@pytest.mark.parametrize("words", [("-q", "score", "-v"), ("-qv", "score"), ("score", "-q", "-v")])
def test_both_are_refused(invoke: Invoke, words: tuple[str, ...]) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert "give only one of --quiet and --verbose" in result.stderr


def test_what_a_users_code_warns_and_logs_is_not_obeyed(
    run_forked: RunProcess, tiny: Path, store: Path
) -> None:
    code = (
        "import logging, warnings\ndef f(query, k):\n"
        "    warnings.warn('\\x1b[31m warned', UserWarning)\n"
        "    logging.getLogger('mine').warning('\\x1b[32m logged')\n    return ['d1']\n"
    )
    (tiny / "search.py").write_text(code, encoding="utf-8")
    config = "retrievers: {mine: {type: python, call: search.py:f}}\ntop_k: [1]\n"
    (tiny / "experiment.yaml").write_text(config, encoding="utf-8")
    printed = run_forked("evaluate", tiny, "--store", store).stderr
    assert r"UserWarning: \x1b[31m warned" in printed
    assert r"\x1b[32m logged" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, ""), (12345.6, "12,346/s"), (12.4, "12/s"), (3.14, "3.1/s"), (0.05, "3.0/min")],
)
def test_rates(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("search", 2) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_rate_and_remaining_time() -> None:
    code = (
        "import time\n"
        "from rag_assets.cli.progress_bars import progress_bar\n"
        "with progress_bar('search bm25', 200) as advance:\n"
        "    time.sleep(0.2); advance(100, None, '2 failed, cost 0.31'); time.sleep(0.3)\n"
    )
    drawn = ESCAPE.sub("", written_to_terminal(["-c", code], {}))
    lines = [line for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert any(
        re.search(r"search bm25 .*100/200 \d+/s 0:0\d left 2 failed, cost 0.31", line)
        for line in lines
    )


def test_without_a_terminal_lines_tell_of_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nothing advances: a line is printed all the same."""
    monkeypatch.setattr("rag_assets.cli.progress_bars.LINE_INTERVAL_S", 0.01)
    with work_board(lambda: "3 of at most 9 computed  a[b=c]"):
        with progress_bar("embed chunks for minilm", 6328) as advance:
            advance(1216, None, "cached")
            wait_for_line(capsys, r"c\]: embed chunks for minilm 1,216 of 6,328 .* left cached$")
        wait_for_line(capsys, r"^0:00 3 of at most 9 computed  a\[b=c\]$")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_bar_alone_has_its_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.cli.progress_bars.LINE_INTERVAL_S", 0.01)
    with progress_bar("compare documents", 9) as advance:
        advance(3)
        wait_for_line(capsys, r"^0:00 at work: compare documents 3 of 9 ")


def wait_for_line(capsys: pytest.CaptureFixture[str], pattern: str) -> None:
    for _ in range(1000):
        out, err = capsys.readouterr()
        assert out == ""
        if re.search(pattern, err, re.M):
            return
        time.sleep(0.01)
    raise AssertionError(f"no line like {pattern}")
