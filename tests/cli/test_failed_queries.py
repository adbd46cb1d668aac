"""A retriever that fails on every query: exit code 3, and no number that is none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.llm.server import error, serving
from tests.tiny_experiment import Tiny

Invoke = Callable[..., Result]
BM25 = {"type": "bm25", "chunking": "whole"}
NO_NUMBER = re.compile(r"(?<![a-z])(-?inf|nan)(?![a-z])", re.IGNORECASE)


@pytest.fixture(scope="module")
def down(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> tuple[list[object], Result]:
    """The arguments of a store in which a query set got no answer, and what evaluate said."""
    tiny = Tiny(tmp_path_factory.mktemp("down") / "tiny")
    with serving(lambda _: "") as server:
        server.on("", error(500))
        at = {"base_url": server.base_url, "model": "tiny", "api_key_env": None}
        tiny.config |= {
            "llm": {"type": "openai", **at, "retries": 0},
            "query_sets": {"pretended": {"strategy": "hyde"}},
            "retrievers": {"bm25": BM25, "hyde": {**BM25, "query_set": "pretended"}},
            "top_k": [3],
            "metrics": ["mrr"],
            "primary": "mrr@3",
        }
        tiny.write()
        where = [tiny.folder, "--store", tiny.settings.store]
        return where, invoke("evaluate", *where)


def test_evaluate_says_that_it_is_incomplete(down: tuple[list[object], Result]) -> None:
    _, result = down
    assert result.exit_code == 3
    assert "error: incomplete: hyde failed on 6 of 6 queries" in result.stderr
    row = next(line for line in result.stdout.splitlines() if "hyde !" in line)
    assert row.split()[:5] == ["2", "hyde", "!", "-", "-"]


def test_an_evaluation_of_the_others_is_not(
    down: tuple[list[object], Result], invoke: Invoke
) -> None:
    assert invoke("evaluate", *down[0], "--retriever", "bm25").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate"],
        ["leaderboard"],
        ["leaderboard", "--latency"],
        ["leaderboard", "--budget", "100"],
        ["leaderboard", "--ties"],
        ["compare", "bm25", "hyde"],
        ["history"],
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_a_mean_over_nothing_is_empty(
    down: tuple[list[object], Result], invoke: Invoke, arguments: list[str], form: str
) -> None:
    command, *options = arguments
    names = [option for option in options if option in ("bm25", "hyde")]
    others = [option for option in options if option not in names]
    folder, *store = down[0]
    shown = invoke(command, folder, *names, *store, *others, "--format", form)
    assert not NO_NUMBER.search(shown.stdout), shown.stdout


def test_the_budget_does_not_count_what_the_original_text_finds(
    down: tuple[list[object], Result], invoke: Invoke
) -> None:
    shown = invoke("leaderboard", *down[0], "--budget", "100", "--format", "json")
    rows = {row["retriever"]: row for row in json.loads(shown.stdout)}
    assert "mrr" not in rows["hyde"]
    assert [rows["hyde"][name] for name in ("position", "n_queries", "n_failed")] == [2, 0, 6]
    assert [rows["hyde"][name] for name in ("tokens", "units")] == [None, None]
    assert [rows["bm25"][name] for name in ("n_queries", "n_failed")] == [6, 0]


def test_the_report_shows_no_such_number(down: tuple[list[object], Result], invoke: Invoke) -> None:
    path = Path(invoke("report", *down[0]).stdout.strip())
    page = re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.search(r">\s*-?(inf|nan)\b", page, re.IGNORECASE)
