"""The history of an experiment and its files."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.analysis.diff import changes_between
from rag_assets.analysis.history import MetricHistory, evaluation_changes
from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.generators import Generator
from rag_assets.chunking.index_texts import IndexText
from rag_assets.errors import NotEvaluated, StoreError, UsageError
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY
from rag_assets.experiment.config import OnlineConfig
from rag_assets.judges.base import Judge
from rag_assets.labels.questions import QuestionOptions
from rag_assets.options import FileOptions
from rag_assets.pipeline import history_files as history_module
from rag_assets.pipeline.evaluation_record import configuration_of, named_files, origin_of
from rag_assets.pipeline.history import History, fill_in
from rag_assets.pipeline.history_files import HistoryFiles, is_compacted
from rag_assets.pipeline.reasons import file_changes
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.query_sets.query_set import QuerySet
from rag_assets.retrieval.base import Retriever
from tests.pipeline.made_history import evaluation_id, made_rows
from tests.tiny_experiment import Tiny, planned

TOP_K = (1, 3, 5)


def history_of(tiny: Tiny) -> History:
    return History(tiny.artifacts, tiny.settings.locks)


def files_of(tiny: Tiny) -> HistoryFiles:
    return HistoryFiles(tiny.artifacts, tiny.settings.locks)


def row_of(tiny: Tiny) -> dict[str, Any]:
    row: dict[str, Any] = files_of(tiny).table().to_pylist()[-1]
    return row


def board_of(tiny: Tiny) -> dict[tuple[str, int], float]:
    return {(row["retriever"], row["top_k"]): row["ndcg"] for row in tiny.rows(LEADERBOARD_KEY)}


def test_a_row_says_all_that_made_the_numbers(tiny: Tiny) -> None:
    evaluation = tiny.snapshot()
    row = row_of(tiny)
    assert row["evaluation_id"] == evaluation.evaluation_id
    assert row["complete"]
    assert (row["trigger"], row["primary_metric"], row["baseline"]) == ("test", "ndcg@5", "bm25")
    pipeline = tiny.pipeline()
    for column, asset in {"corpus_digest": "documents", "qrels_digest": "qrels"}.items():
        key = next(key for key in (e.key for e in evaluation.entries) if key.asset == asset)
        assert row[column] == pipeline.artifact(key).manifest.digests["all"]
    bm25 = next(one for one in row["retrievers"] if one["retriever"] == "bm25")
    assert json.loads(bm25["configuration"])["k1"] == 1.2
    assert {"PyStemmer", "duckdb"} <= json.loads(bm25["versions"]).keys()
    assert json.loads(row["code_versions"])["metrics"]
    assert json.loads(row["packages"]).keys() >= {"python", "duckdb", "pyarrow"}
    values: dict[str, dict[tuple[str, int], float]] = {}
    for one in row["metrics"]:
        values.setdefault(one["metric"], {})[one["retriever"], one["top_k"]] = one["value"]
    assert values.keys() == {"hit_rate", "mrr", "ndcg", "cost_time"}
    times = values["cost_time"]
    assert values["ndcg"] == board_of(tiny)
    assert times == EvaluationResult.current(tiny.artifacts).cost_times
    assert times.keys() == values["ndcg"].keys()
    metric = MetricHistory.of(history_of(tiny), "cost_time@3").rows
    assert {one["retriever"]: one["value"] for one in metric} == {
        name: value for (name, k), value in times.items() if k == 3
    }


def test_a_cell_that_is_missing_makes_it_incomplete(tiny: Tiny) -> None:
    complete = tiny.names().find("latest")
    tiny.configure("bm25", k1=0.4)
    tiny.snapshot()
    row = row_of(tiny)
    assert not row["complete"]
    assert "bm25" not in {one["retriever"] for one in row["metrics"]}
    with pytest.raises(UsageError, match="is incomplete"):
        tiny.names().pin("latest")
    tiny.snapshot()
    assert tiny.names().find("previous") == complete


def test_a_lost_or_damaged_row_is_made_again_or_told_with_what_helps(tiny: Tiny) -> None:
    before = files_of(tiny).table()
    for path in files_of(tiny).paths():
        path.unlink()
    assert [fill_in(tiny.artifacts, tiny.settings.locks) for _ in range(2)] == [1, 0]
    assert files_of(tiny).table().equals(before)
    path = files_of(tiny).paths()[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert len(history_of(tiny).ids()) == 1  # made again from its snapshot
    path.write_bytes(b"PAR1")
    (tiny.artifacts / "evaluations" / f"{path.name.partition('.')[0]}.json").unlink()
    with pytest.raises(StoreError, match=r"not a readable history .* delete it: `rag-assets hist"):
        history_of(tiny).ids()


def test_another_schema_version_is_refused_with_what_helps(tiny: Tiny) -> None:
    path = files_of(tiny).paths()[0]
    table = pq.read_table(path, partitioning=None)
    number = table.column_names.index("schema_version")
    path = path.rename(
        path.with_name(f"{path.name.partition('.')[0]}.parquet")
    )  # no digest is compared
    pq.write_table(table.set_column(number, "schema_version", pa.array([99], pa.int32())), path)
    with pytest.raises(StoreError, match="schema version 99, this program uses 1; move the fold"):
        history_of(tiny)
    path.rename(tiny.root / "away.parquet")
    assert len(history_of(tiny).ids()) == 1


def test_the_warehouse_shows_the_history_and_what_columns_mean(tiny: Tiny) -> None:
    rebuild(tiny.settings).unlink()
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            return connection.execute(sql).fetchall()

        tiny.snapshot()
        assert ask("SELECT count(DISTINCT evaluation_id), count(*) FROM history") == [(2, 120)]
        assert ask("SELECT count(*), count(git_commit) FROM evaluations") == [(2, 0)]
        current = "SELECT is_current, complete, n_artifacts FROM evaluations ORDER BY started"
        assert ask(current) == [(False, True, 74), (True, True, 74)]
        assert ask("SELECT DISTINCT type FROM history_retrievers ORDER BY 1") == [
            ("bm25",),
            ("rrf",),
        ]
        silent = ask(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND "
            "table_name IN ('evaluations', 'history', 'history_retrievers') ORDER BY 2"
        )
        added = {"experiment", "evaluation_id", "started", "complete", "is_current"}
        assert {column for _, column in silent} <= added


def test_names_of_evaluations(tiny: Tiny) -> None:
    first, second = tiny.snapshot(), tiny.snapshot()
    names = tiny.names()
    assert names.find("latest") == second
    assert names.find("previous") == first
    assert names.find(first.evaluation_id) == first
    assert names.find(first.evaluation_id[:20]) == first
    assert names.find(second.evaluation_id[-12:]) == second
    with pytest.raises(UsageError, match="'2' fits 3 evaluations: 2"):
        names.find("2")
    with pytest.raises(UsageError, match="no evaluation 'nope'; allowed: latest, previous, anchor"):
        names.find("nope")
    with pytest.raises(NotEvaluated, match="has no anchor; `rag-assets anchor PATH` pins"):
        names.find("anchor")
    names.pin("previous")
    assert names.find("anchor") == first
    (tiny.artifacts / "evaluations" / f"{first.evaluation_id}.json").unlink()
    with pytest.raises(UsageError, match="was cleaned away; `rag-assets history`"):
        names.find(first.evaluation_id[:20])


def test_the_commit_of_the_project(fresh: Tiny) -> None:
    assert origin_of(fresh.pipeline().experiment, {}).git_commit is None

    def git(*words: str) -> str:
        own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(fresh.folder)]
        done = subprocess.run(["git", *own, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    origin = origin_of(fresh.pipeline().experiment, {})
    assert (origin.git_commit, origin.git_dirty) == (git("rev-parse", "HEAD"), False)
    fresh.write_document("fares.md", "# Fares\n")
    assert origin_of(fresh.pipeline().experiment, {}).git_dirty


def test_a_configuration_keeps_no_path_and_no_password(fresh: Tiny) -> None:
    fresh.config["llm"] = {"model": "m", "base_url": "http://me:secret@host:1/v1?key=hidden"}
    fresh.write_config()
    text = json.dumps(configuration_of(fresh.pipeline().experiment))
    assert '"http://host:1/v1"' in text
    assert "secret" not in text
    assert "hidden" not in text
    assert str(fresh.root) not in text


def file_types(options: type[FileOptions] = FileOptions) -> Iterator[type[FileOptions]]:
    """Types of blocks that name a file."""
    for one in options.__subclasses__():
        if one.file_options and one.__module__.startswith("rag_assets."):
            yield one
        yield from file_types(one)


def test_every_file_that_a_block_names_has_a_name(fresh: Tiny) -> None:
    """Files enter fingerprints by their content: a new type of block with files belongs here."""
    parts = (Retriever, QuerySet, Generator, Judge, IndexText, QuestionOptions, OnlineConfig)
    assert {one.__name__ for one in file_types() if not issubclass(one, parts)} == set()
    prompt = "version: 1\n[user]\n{}"
    (fresh.folder / "questions.jsonl").write_text(
        '{"document_id": "x", "start": 0, "end": 1, "texts": []}'
    )
    texts = {
        "variants.jsonl": '{"query_id": "q1", "text": "dogs"}\n',
        "run.trec": "q1 Q0 fares.md 1 2.0 mine\n",
        "answers.json": "{}",
        "clicks.jsonl": '{"action_name": "click"}\n',
        "hyde.txt": prompt.format("{query}"),
        "judge.txt": prompt.format("{question} {passage}"),
    }
    for name, text in texts.items():
        (fresh.folder / name).write_text(text)
    fresh.config |= {
        "llm": {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None},
        "query_sets": {
            "file": {"strategy": "file", "path": "variants.jsonl"},
            "hyde": {"strategy": "hyde", "template": "hyde.txt"},
        },
        "generators": {"read": {"type": "file", "path": "answers.json"}},
        "judges": {"strict": {"type": "llm", "relevance_prompt": "judge.txt"}},
        "online": {"clicks": "clicks.jsonl"},
    }
    fresh.configure("run", type="run_file", path="run.trec", chunking="whole")
    fresh.config["chunking"]["parts"]["index_texts"] = [
        "text",
        {"kind": "questions", "file": "questions.jsonl"},
    ]
    fresh.write_config()
    before = named_files(fresh.pipeline())
    for name in ("questions.jsonl", *texts):
        (fresh.folder / name).write_text((fresh.folder / name).read_text() + "\n")
    changes = {one.text for one in file_changes(before, named_files(fresh.pipeline()))}
    assert changes == {
        "retrievers.run.path: run.trec changed",
        "query_sets.file.path: variants.jsonl changed",
        "query_sets.hyde.template: hyde.txt changed",
        "generators.read.path: answers.json changed",
        "online.clicks: clicks.jsonl changed",
        "judges.strict.relevance_prompt: judge.txt changed",
        "chunking.parts.index_texts.1.file: questions.jsonl changed",
    }


def test_a_changed_run_file_is_named_by_plan_history_and_diff(fresh: Tiny) -> None:
    run = fresh.folder / "mine.trec"
    run.write_text("q1 Q0 lost.md 1 2.0 mine\n")
    fresh.config |= {"retrievers": {}, "baseline": "mine"}
    fresh.configure("mine", type="run_file", path="mine.trec", chunking="whole")
    fresh.run()
    fresh.snapshot()
    run.write_text("q1 Q0 fares.md 1 2.0 mine\n")
    reason = "retrievers.mine.path: mine.trec changed"
    assert [one.text for one in planned(fresh).files] == [reason]
    fresh.run()
    fresh.snapshot()
    old, new = files_of(fresh).table().to_pylist()
    assert [one.text for one in evaluation_changes(old, new)] == [reason]
    a, b = (
        EvaluationResult(fresh.artifacts, fresh.names().find(name))
        for name in ("previous", "latest")
    )
    assert [one.text for one in changes_between(a, b)] == [reason]


REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryFiles:
    monkeypatch.setattr(history_module, "COMPACTED", 3)
    return HistoryFiles(tmp_path / "made", tmp_path / "locks")


def ids_of(files: HistoryFiles) -> list[str]:
    ids: list[str] = files.table(["evaluation_id"]).column("evaluation_id").to_pylist()
    return ids


def test_rows_lie_in_few_files_and_none_changes(files: HistoryFiles, tmp_path: Path) -> None:
    for number in range(20):
        files.add(made_rows([number]))
    assert files.table().equals(made_rows(range(20)))
    assert [pq.read_metadata(path).num_rows for path in files.paths()] == [3] * 6 + [1, 1]
    others = HistoryFiles(tmp_path / "other", tmp_path / "locks")
    for number in range(20):
        others.add(made_rows([number]))
    same = [[path.name for path in one.paths()] for one in (files, others)]
    assert same[0] == same[1], "the same rows have the same names on all machines"


def test_rows_are_in_the_order_of_time_whenever_they_were_added(files: HistoryFiles) -> None:
    numbers = list(range(40))
    random.Random(3).shuffle(numbers)
    for begin in range(0, 40, 2):
        files.add(made_rows(sorted(numbers[begin : begin + 2])))
    whole = made_rows(range(40))
    assert files.table().equals(whole)


def test_files_of_older_evaluations_are_not_read(files: HistoryFiles) -> None:
    for number in range(8):
        files.add(made_rows([number]))
    files.paths()[0].write_bytes(b"damaged")
    newer = files.table(["evaluation_id"], since=evaluation_id(4))["evaluation_id"].to_pylist()
    assert newer == [evaluation_id(number) for number in range(3, 8)], "whole files are read"
    with pytest.raises(StoreError, match="not a readable history"):
        files.table(["evaluation_id"], since=evaluation_id(2))


def test_files_that_a_killed_process_left_lose_and_double_nothing(files: HistoryFiles) -> None:
    """It was killed when a new file was there, and some of those that it replaces were gone."""
    for number in range(2):
        files.add(made_rows([number]))
    single = {path: path.read_bytes() for path in files.paths()}
    files.add(made_rows([2]))
    (compacted,) = files.paths()
    new = compacted.read_bytes()
    for n_left in range(1, 3):
        shutil.rmtree(files.folder)
        files.folder.mkdir()
        compacted.write_bytes(new)
        for path in list(single)[-n_left:]:
            path.write_bytes(single[path])
        assert ids_of(files) == [evaluation_id(number) for number in range(3)]
        for number in range(3, 6):
            files.add(made_rows([number]))
        assert files.table().equals(made_rows(range(6)))
        assert sum(not is_compacted(path) for path in files.paths()) < 3


def test_a_file_that_is_damaged_stays_and_takes_nothing_with_it(files: HistoryFiles) -> None:
    files.add(made_rows([0]))
    (damaged,) = files.paths()
    content = bytearray(damaged.read_bytes())
    content[-20] ^= 1
    damaged.write_bytes(content)
    for number in range(1, 8):
        files.add(made_rows([number]))
    assert damaged.read_bytes() == content
    with pytest.raises(StoreError, match="not a readable history"):
        files.ids()
    damaged.unlink()
    assert ids_of(files) == [evaluation_id(number) for number in range(1, 8)]
    assert sum(not is_compacted(path) for path in files.paths()) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_several_writers_of_which_one_is_killed(tmp_path: Path, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.made_history", tmp_path / "made", str(seed)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
