"""``rag-assets evaluate``: what is printed, and the exit code where a retriever failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.pipeline.evaluations import read_current
from tests.cli.conftest import Invoke, RunProcess, parsed, without_progress
from tests.forked import Forks, Place
from tests.llm.server import error, serving
from tests.tiny_experiment import QUERIES, Tiny

OF = ["evaluation_id", "started"]
NOTE = "note: qrels: 1 query without a relevant document: q4\n"


def counts(result: Result) -> tuple[int, int]:
    found = re.search(r"(\d+) partitions computed, (\d+) reused", result.stdout)
    assert found, result.output
    return int(found[1]), int(found[2])


def artifacts(store: Path) -> dict[str, int]:
    """Without the history, to which every evaluation adds a row."""
    files = [file for file in store.rglob("*.parquet") if file.parent.name != "history"]
    return {str(file.relative_to(store)): file.stat().st_mtime_ns for file in files}


def test_second_run_computes_nothing(
    run_forked: RunProcess, invoke: Invoke, tiny: Path, store: Path
) -> None:
    """Both hand JSON alone to stdout, the first one in a process of its own."""
    where = ("evaluate", tiny, "--store", store)
    first = run_forked(*where, "--format", "json")
    assert (first.returncode, first.stderr) == (0, NOTE)
    evaluation, before = read_current(store / "tiny"), artifacts(store)
    assert evaluation.computed > 0
    assert counts(invoke(*where)) == (0, len(evaluation.entries))
    assert artifacts(store) == before
    assert len(list((store / "tiny" / "evaluations").glob("*.json"))) == 2
    rows, old = parsed(invoke(*where, "--format", "json")), json.loads(first.stdout)
    assert rows == [{**row, **{name: rows[0][name] for name in OF}} for row in old]
    assert rows[0]["started"] > old[0]["started"]


def test_ui_command_quotes_its_paths(invoke: Invoke, evaluated: tuple[Path, Path]) -> None:
    folder, store = evaluated
    spaced = store.parent / "a store"
    if not spaced.exists():
        spaced.symlink_to(store)
    assert f"RAG_ASSETS_STORE='{spaced}' " in invoke("evaluate", folder, "--store", spaced).stdout


def test_the_dagster_of_the_ui_command_sends_nothing(
    invoke: Invoke, evaluated: tuple[Path, Path], tmp_path: Path
) -> None:
    """Only the store's own folder gets the file, also where nothing is to be done; none is changed.

    By it `dagster dev` stores where `evaluate` does.
    """
    folder, store = evaluated
    file, words = store / "dagster" / "dagster.yaml", ("evaluate", folder, "--store", store)
    file.unlink(missing_ok=True)
    assert f"DAGSTER_HOME={file.parent} " in invoke(*words).stdout
    with dg.DagsterInstance.from_config(str(file.parent)) as instance:
        assert (instance.telemetry_enabled, instance.nux_enabled) == (False, False)
        assert len(instance.get_runs()) == 1
    text = "telemetry: {enabled: false}\n"
    file.write_text(text, encoding="utf-8")
    invoke(*words)
    assert file.read_text(encoding="utf-8") == text
    users = CliRunner(env={"DAGSTER_HOME": str(tmp_path)}).invoke(main, [*map(str, words)])
    assert f"DAGSTER_HOME={tmp_path} " in users.stdout
    assert not (tmp_path / "dagster.yaml").exists()


@pytest.mark.parametrize(
    ("number", "there"),
    [
        (signal.SIGINT, "objects/queries/*/*.parquet"),
        (signal.SIGTERM, "objects/queries/*/*.parquet"),  # in the run: Dagster
        (signal.SIGTERM, "experiments.json"),  # before it
    ],
)
def test_interrupted_and_run_again(
    forks: Forks, invoke: Invoke, tiny: Path, store: Path, number: signal.Signals, there: str
) -> None:
    output, errors = tiny.parent / "out.txt", tiny.parent / "errors.txt"
    place = Place(str(output), errors=str(errors))
    for _ in range(5):
        process = forks.start(place, "evaluate", str(tiny), "--store", str(store))
        wait_for(store, there)
        os.kill(process, number)  # nobody has waited for it, so the id is still its own
        code = forks.wait(process)
        if code != 0:
            break
        shutil.rmtree(store)  # on a busy machine the signal may come too late
    assert (code, output.read_text(encoding="utf-8")) == (3, "")
    told = "interrupted; finished work is stored; run it again to continue\n"
    assert without_progress(errors.read_text(encoding="utf-8")) == told
    assert not list(store.rglob("*.tmp-*"))
    assert not (store / "tiny" / "current").exists()
    computed, reused = counts(invoke("evaluate", tiny, "--store", store))
    assert computed > 0
    assert (reused > 0) == there.endswith(".parquet")


def wait_for(path: Path, name: str) -> None:
    deadline = time.monotonic() + 60
    while not list(path.glob(name)):
        assert time.monotonic() < deadline
        time.sleep(0.005)


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


def test_evaluate_says_that_it_is_incomplete_and_of_the_others_not(
    down: tuple[list[object], Result], invoke: Invoke
) -> None:
    where, result = down
    assert result.exit_code == 3
    assert not NO_NUMBER.search(result.stdout)
    assert "error: incomplete: hyde failed on 6 of 6 queries" in result.stderr
    assert f" {where[0]}` shows why" in result.stderr  # the command can be run as it is printed
    row = next(line for line in result.stdout.splitlines() if "hyde !" in line)
    assert row.split()[:5] == ["2", "hyde", "!", "-", "-"]
    assert invoke("evaluate", *down[0], "--retriever", "bm25").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
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


def test_budget_and_report_count_no_failure(
    down: tuple[list[object], Result], invoke: Invoke
) -> None:
    shown = invoke("leaderboard", *down[0], "--budget", "100", "--format", "json")
    rows = {row["retriever"]: row for row in json.loads(shown.stdout)}
    assert "mrr" not in rows["hyde"]
    assert [rows["hyde"][name] for name in ("position", "n_queries", "n_failed")] == [2, 0, 6]
    assert [rows["hyde"][name] for name in ("tokens", "units")] == [None, None]
    assert [rows["bm25"][name] for name in ("n_queries", "n_failed")] == [6, 0]
    path = Path(invoke("report", *down[0]).stdout.strip())
    page = re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.search(r">\s*-?(inf|nan)\b", page, re.IGNORECASE)


def test_empty_results_are_named_and_the_report_says_what_auto_chose(
    computed: Tiny, tmp_path: Path
) -> None:
    """One retriever finds nothing: it keeps the marks on words."""
    tiny = Tiny(tmp_path).start_from(computed)
    bm25 = {"type": "bm25", "chunking": "parts"}
    retrievers = {"plain": bm25, "exact": {**bm25, "analyzer": "whitespace"}}
    tiny.config |= {"retrievers": retrievers, "baseline": "plain", "top_k": [3]}
    tiny.config["primary"] = "ndcg@3"
    tiny.write()
    marked = [row | {"text": row["text"].replace(" ", "? ") + "?"} for row in QUERIES]
    tiny.write_rows("queries.jsonl", marked)
    evaluated = tiny.command("evaluate", ".")
    assert evaluated.exit_code == 0, evaluated.output
    empty = "exact: nothing retrieved for 6 of 6 queries (analyzer whitespace); those with a "
    empty += "relevant document count as 0"
    assert empty in " ".join(evaluated.output.split())
    report = (tiny.artifacts / "report.html").read_text(encoding="utf-8")
    assert "plain <code>auto: english</code>, exact <code>whitespace</code>" in report


HELD = """
import sys
from contextlib import suppress
from pathlib import Path
from rag_assets.cli import main

def held() -> int:
    return int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])

with suppress(SystemExit):
    main()
import pyarrow as pa
largest = bytearray(20_000_000)  # by default, what is freed from now on is kept below this size
del largest
before = held()
arrays = [bytearray(6_000_000) for _ in range(10)]
del arrays[:9]
print(held() - before, pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is of the GNU C library")
def test_freed_memory_goes_back_to_the_system() -> None:
    command = [sys.executable, "-c", HELD, "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kilobytes, pool = printed.splitlines()[-1].split()
    assert int(kilobytes) < 12_000, "of 60 MB, 54 were freed"
    assert pool == "system"
