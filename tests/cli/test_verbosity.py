"""--quiet leaves results and errors; --verbose says what is computed and for how long."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
RunProcess = Callable[..., "subprocess.CompletedProcess[str]"]


def test_quiet_prints_the_result_and_nothing_else(
    invoke: Invoke, tiny: Path, store: Path, evaluated: tuple[Path, Path]
) -> None:
    usual = invoke("leaderboard", evaluated[0], "--store", evaluated[1])
    quiet = invoke("evaluate", tiny, "--store", store, "--quiet")
    assert quiet.exit_code == 0
    assert quiet.stderr == ""
    assert [line.split()[:-1] for line in quiet.stdout.splitlines()[:3]] == [
        line.split()[:-1] for line in usual.stdout.splitlines()[:3]
    ]
    assert "warehouse" not in quiet.stdout


@pytest.mark.parametrize("words", [("-q", "evaluate", "nowhere"), ("evaluate", "nowhere", "-q")])
def test_quiet_prints_errors(invoke: Invoke, words: tuple[str, ...]) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


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


def test_what_is_logged_goes_nowhere_afterwards(
    invoke: Invoke, evaluated: tuple[Path, Path]
) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("rag_assets").level)
    assert invoke("-v", "leaderboard", evaluated[0], "--store", evaluated[1]).exit_code == 0
    assert (root.level, root.handlers, logging.getLogger("rag_assets").level) == before


@pytest.mark.parametrize("words", [("-q", "score", "-v"), ("-qv", "score"), ("score", "-q", "-v")])
def test_both_are_refused(invoke: Invoke, words: tuple[str, ...]) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert "--quiet and --verbose exclude each other" in result.stderr


def test_below_a_group_they_are_options_too(invoke: Invoke, store: Path) -> None:
    result = invoke("cache", "info", "--quiet", "--store", store)
    assert (result.exit_code, result.stderr) == (0, "")


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
