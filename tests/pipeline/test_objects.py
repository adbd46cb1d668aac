"""Objects of a store that experiments share, blocks in them, and stores of before."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rag_assets.analysis.result import EvaluationResult
from rag_assets.cli import main
from rag_assets.engine.recipe import Recipe
from rag_assets.engine.stage import Product, Stage, TableProduct, table_manifest
from rag_assets.experiment import load_experiment
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import removable
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import COMPUTE, REUSE
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.sources.stage import QUERIES_KEY, Queries
from rag_assets.store.artifacts import Artifact, ArtifactStore
from rag_assets.store.atomic import remove
from rag_assets.store.content_cache import CACHE
from tests.cached_vectors import VectorCache
from tests.llm.requests import store_replies
from tests.tiny_experiment import Tiny, matching, materialize, planned


def computed(tiny: Tiny) -> int:
    """How many partitions an evaluation computes."""
    pipeline = tiny.pipeline()
    materialize(pipeline)
    return pipeline.n_computed


def test_a_table_of_before_a_projection_is_up_to_date(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = Tiny(tiny.folder.parent / "fresh").write()
    more = {**Queries.projections, "labelled": ("query_id", "tags", "metadata")}
    monkeypatch.setattr(Queries, "projections", more)
    artifact = tiny.pipeline().current(QUERIES_KEY)
    assert artifact is not None
    (new,) = fresh.pipeline().materialize("queries", [QUERIES_KEY])
    assert artifact.manifest.digests == new.artifact.manifest.digests
    assert computed(tiny) == 0


def test_a_renamed_retriever_is_found_and_keeps_its_latency(tiny: Tiny) -> None:
    before = EvaluationResult.current(tiny.artifacts).speed
    kept = tiny.config["retrievers"]
    kept = {"other" if name == "bm25-whole" else name: one for name, one in kept.items()}
    kept["hybrid"] = {**kept["hybrid"], "inputs": ["bm25", "other"]}
    tiny.config["retrievers"] = kept
    tiny.write_config()
    assert computed(tiny) <= 5
    tiny.snapshot()
    after = EvaluationResult.current(tiny.artifacts).speed
    assert after["other"] == before["bm25-whole"]
    assert after["hybrid"] == before["hybrid"]


def grid(one: Tiny, size: int) -> Tiny:
    """As many retrievers of one corpus that differ in what comes after its words are counted."""
    kinds: list[dict[str, object]] = [
        {"type": "bm25", "b": 0.5},
        {"type": "bm25", "variant": "bm25plus"},
        {"type": "bm25", "variant": "okapi"},
        {"type": "bm25", "expand": {"type": "rm3"}},
        {"type": "tfidf"},
    ]
    kinds += [{"type": "bm25", "k1": 1 + number / 10} for number in range(size)]
    base = {"chunking": "parts", "analyzer": "english"}
    one.config["retrievers"] = {f"b{n}": base | kind for n, kind in enumerate(kinds[:size])}
    one.config["baseline"] = "b0"
    one.write_config()
    return one


def test_what_a_grid_shares_is_stored_once(one: Tiny) -> None:
    pipeline = grid(one, 6).pipeline()
    wanted = required_partitions(pipeline.experiment, Selection.of(pipeline.experiment))
    n_partitions = sum(map(len, wanted.values()))
    planned_before = planned(one).count(COMPUTE)
    # Judgments, queries and lengths of contexts are the same for all six.
    assert planned_before == n_partitions - 3 * 5
    done = computed(one)
    assert done <= planned_before  # where two find the same, their numbers are one artifact too
    assert planned(one).count(REUSE) == done
    for asset in ("relevant_units", "lexical_queries", "retriever_contexts", "term_counts"):
        assert len(pipeline.store.names(asset)) == 1, asset
    assert len(pipeline.store.names("lexical_index")) == 6


def test_two_experiments_share_what_is_equal(tiny: Tiny, tmp_path: Path) -> None:
    """The second one has another baseline, and a retriever of its own."""
    config = {**tiny.config, "name": "other", "baseline": "bm25-whole"}
    config["retrievers"] = {**config["retrievers"], "new": {"type": "bm25", "chunking": "parts"}}
    config["retrievers"]["new"]["k1"] = 0.3
    other = Tiny(tmp_path / "other", config).write()
    before = EvaluationResult.current(tiny.artifacts).speed
    pipeline = Pipeline(load_experiment(other.folder), tiny.settings)
    names, done = matching(pipeline, "*"), materialize(pipeline)
    shared = {"leaderboard", "comparisons", "answerability", "overlaps"}
    own = {name for name in names if "/new" in name} | {"term_counts/parts:auto"}
    assert {name for name in done if name.split("/")[0] not in shared} <= own
    record(pipeline, started=datetime.now(UTC), trigger="test", computed=len(done))
    after = EvaluationResult.current(pipeline.root).speed
    assert {name: after[name] for name in before} == before
    assert tiny.run() == set()


def test_what_another_process_stored_meanwhile_is_taken(tiny: Tiny, tmp_path: Path) -> None:
    """A model gives other bytes for the same inputs: what is below is made of what is stored."""
    tiny.configure("bm25-whole", b=0.1)
    elsewhere = ArtifactStore(tiny.settings.store, tmp_path / "locks of another machine")
    theirs: dict[str, str] = {}

    class Slow(Pipeline):
        """Another process stores its own result while this one computes."""

        def _write(self, stage: Stage, product: Product, recipe: Recipe) -> Artifact:
            if stage.name == "lexical_runs" and isinstance(product, TableProduct):
                other = replace(product, table=product.table.slice(1))
                first = elsewhere.write_table(other.table, table_manifest(stage, other, recipe))
                theirs[recipe.fingerprint] = first.manifest.digests["all"]
            return super()._write(stage, product, recipe)

    pipeline = Slow(load_experiment(tiny.folder), tiny.settings)
    materialize(pipeline)
    evaluation = record(pipeline, started=datetime.now(UTC), trigger="test", computed=1)
    digests = {entry.fingerprint: entry.digest for entry in evaluation.entries}
    assert theirs
    assert {one: digests[one] for one in theirs} == theirs
    for entry in evaluation.entries_of("metrics"):
        inputs = tiny.pipeline().artifact(entry.key).manifest.inputs
        run = run_key(pipeline.experiment, entry.partition["retriever"], entry.partition["top_k"])
        assert pipeline.artifact(run).manifest.digests["all"] in inputs.values()
    assert tiny.run() == set(), "everything below is of what is stored"


def test_no_object_holds_the_name_of_a_retriever_or_a_path(tiny: Tiny) -> None:
    """But where names are in the rows: the leaderboard, and what compares retrievers."""
    named = {"leaderboard", "comparisons", "overlaps", "answerability", "attributions"}
    for folder in tiny.objects("").glob("*/*"):
        told = (folder / "manifest.json").read_text()
        assert str(tiny.root) not in told, folder
        assert "bm25-whole" not in json.dumps(json.loads(told)["facts"]), folder
        if folder.parent.name not in named:
            files = folder.rglob("*.parquet")
            rows = [pq.read_table(file, partitioning=None).to_pylist() for file in files]
            assert "bm25-whole" not in f"{told}{rows}", folder


ARCHIVE = Path(__file__).parent / "old_store.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def printed(folder: Path, *words: str) -> str:
    runner = CliRunner(env={"COLUMNS": "120"})
    arguments = [words[0], str(folder / "notes"), *words[1:], "--store", str(folder / "store")]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def files(folder: Path) -> dict[str, bytes]:
    paths = (folder / "store" / "ferry").rglob("*.*")
    return {
        str(path): path.read_bytes()
        for path in paths
        if path.is_file() and path.name not in ("current", "report.html")
    }


def test_only_its_history_is_read_and_nothing_of_it_is_lost(old: Path) -> None:
    assert printed(old, "history", "--format", "csv").count("\n") == 7
    store = ["--store", str(old / "store")]
    refused = CliRunner().invoke(main, ["leaderboard", str(old / "notes"), *store])
    assert refused.exit_code == 3
    assert refused.stderr.endswith(
        "of ferry is from before 0.1.0: only its history is read; evaluate ferry again\n"
    )
    before = files(old)
    pinned = (old / "store" / "ferry" / "anchor").read_text()
    printed(old, "evaluate")
    assert before.items() <= files(old).items()
    assert " 0 partitions computed" in printed(old, "evaluate")
    assert printed(old, "history", "--format", "csv").count("\n") == 13
    assert (old / "store" / "ferry" / "anchor").read_text() == pinned
    kept = {path for path in files(old) if "/evaluations/" not in path}
    words = ["clean", "--older-than", "0", "--orphans", "--yes", *store]
    cleaned = CliRunner().invoke(main, words)
    assert cleaned.exit_code == 0, cleaned.output
    assert kept <= files(old).keys(), "none is taken for rubbish"


MODEL = {"model": "m", "server": "s"}
REQUEST = ChatRequest((Message("user", "Which is best?"),), template="p/1")


@pytest.fixture
def cached(tiny: Tiny) -> Tiny:
    """The experiment, evaluated, with three vectors alone in the caches."""
    remove(tiny.settings.store / "cache")
    vectors(tiny).put(["one", "two", "three"], np.eye(3, dtype=np.float32))
    return tiny


def vectors(tiny: Tiny) -> VectorCache:
    return VectorCache(tiny.settings.store / "cache" / "embeddings", "a" * 64)


def test_old_entries_go_when_they_are_named(cached: Tiny) -> None:
    folder = cached.settings.store / "cache" / "completions"
    store_replies(folder, MODEL, [(REQUEST, Completion("This one.", 1, 1, "stop"))])
    evaluations = list((cached.artifacts / "evaluations").iterdir())
    assert cached.command(*["clean", "--older-than", "0", "--orphans", "--yes"]).exit_code == 0
    assert ReplyStore(folder).get(MODEL, [REQUEST]) != [None], "no reply goes unasked"
    assert cached.command("clean", "--caches", "1").stdout == "nothing to remove\n"
    dry = cached.command("clean", "--caches", "0")
    assert "cache/embeddings" in dry.stdout
    assert "add --yes to remove it" in dry.stderr
    assert ReplyStore(folder).get(MODEL, [REQUEST]) != [None]
    assert cached.command("clean", "--caches", "0", "--yes").exit_code == 0
    assert ReplyStore(folder).get(MODEL, [REQUEST]) == [None]
    assert list((cached.artifacts / "evaluations").iterdir()) == evaluations


def test_an_entry_goes_by_its_age(cached: Tiny) -> None:
    settings, later = cached.settings, datetime.now(UTC) + timedelta(days=3)
    for days, kinds in ((2, ["cache/embeddings"]), (4, [])):
        age = timedelta(days=days)
        items = removable(settings, None, orphans=False, cache_age=age, now=later)
        assert [item.kind for item in items] == kinds
    assert not any(
        CACHE in item.kind for item in removable(settings, None, orphans=True, now=later)
    )


BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "read_corpus.py"
SMALL, LARGE = 20, 60
"""Sizes of the file in MB."""


def measured(megabytes: int, way: str, folder: Path) -> dict[str, Any]:
    out = folder / f"{way}-{megabytes}.json"
    call = [sys.executable, str(BENCHMARK), "--megabytes", str(megabytes), "--way", way]
    subprocess.run([*call, "--out", str(out)], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {"bytes": found["bytes"], **found["ways"][way]}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "at_most"), [("reader", 3.0), ("documents", 4.0)])
def test_reading_holds_the_corpus_once(tmp_path: Path, way: str, at_most: float) -> None:
    """Digests that copied the table took 6.1 times the size; Python objects take 5.6 times."""
    small, large = measured(SMALL, way, tmp_path), measured(LARGE, way, tmp_path)
    assert large["rows"] > 2 * small["rows"]
    assert large["peak"] - large["imports"] < at_most * large["bytes"]
    growth = (large["peak"] - small["peak"]) / (large["bytes"] - small["bytes"])
    assert growth < 2.5
