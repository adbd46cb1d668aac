"""`compute: ray` on a real cluster of this machine: two nodes, of which one is killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import rag_assets
from rag_assets.chunking.stage import chunks_key
from rag_assets.compute.compute import ComputeConfig, RayCluster, compute_of, release_workers
from rag_assets.errors import ComputeUnavailable, UsageError
from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.experiment import load_experiment
from rag_assets.llm.models import LocalTransformers
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.progress import Advance
from rag_assets.retrieval.lexical.stage import term_counts_key
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.settings import StoreSettings
from tests.llm.requests import answers_of, asking, untimed
from tests.llm.tiny_language_models import WORDS, save_t5
from tests.ray_nodes import Nodes, ray_nodes
from tests.retrieval.reranking.tiny_models import cross_encoder
from tests.static_model import save_static_model
from tests.tiny_experiment import materialize

pytest.importorskip("ray", reason="the extra ray is not installed")

N_DOCUMENTS, N_QUERIES = 700, 40


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with ray_nodes() as started:
        yield started
        release_workers()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents for several blocks, and an experiment without `compute`."""
    folder = tmp_path_factory.mktemp("several-blocks")
    numbers = np.random.default_rng(3)
    words = [f"w{number}" for number in range(300)]

    def text(most: int) -> str:
        return " ".join(numbers.choice(words, size=numbers.integers(2, most)))

    documents = [{"doc_id": f"d{row}", "text": text(30)} for row in range(N_DOCUMENTS)]
    queries = [{"query_id": f"q{row}", "text": text(5)} for row in range(N_QUERIES)]
    judged = [{"query_id": f"q{row}", "doc_id": f"d{row}"} for row in range(N_QUERIES)]
    rows = {"documents": documents, "queries": queries, "judgments": judged}
    for name, content in rows.items():
        lines = "".join(f"{json.dumps(row)}\n" for row in content)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    models = tmp_path_factory.mktemp("models")
    static = save_static_model(models / "static", [" ".join(words)])
    reranker = cross_encoder(models / "reranker")
    config = {
        "name": "several",
        "chunking": {
            "whole": {"strategy": "none"},
            "parts": {"strategy": "recursive", "max_characters": 60, "overlap": 0},
        },
        "retrievers": {
            "words": {"type": "bm25", "chunking": "parts", "expand": {"type": "rm3"}},
            "static": {"type": "embedding", "chunking": "whole", "model": str(static)},
            "reranked": {
                "type": "cross_encoder",
                "model": str(reranker),
                "input": "static",
                "candidates": 30,
            },
        },
        "top_k": [1, 10],
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def evaluated(experiment: Path, store: Path, progress: Any = None) -> Pipeline:
    pipeline = Pipeline(load_experiment(experiment), StoreSettings.resolve(store))
    if progress is not None:
        pipeline.progress = progress
    materialize(pipeline)
    return pipeline


def run(pipeline: Pipeline, retriever: str) -> pa.Table:
    return pipeline.artifact(run_key(pipeline.experiment, retriever, 10)).table()


@pytest.mark.slow
def test_the_results_are_the_same_when_a_node_dies(
    nodes: Nodes, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = evaluated(experiment, tmp_path / "here")
    killed, sent, original = list[int](), set[str](), RayCluster.map

    def sending(self: RayCluster, work: Any, blocks: Any) -> Any:
        whole = getattr(work, "func", work)  # of a partial
        sent.add(getattr(whole, "__name__", type(whole).__name__))
        return original(self, work, blocks)

    monkeypatch.setattr(RayCluster, "map", sending)

    @contextmanager
    def killing(label: str, total: int) -> Iterator[Advance]:
        def advance(done: int, all_of_them: int | None = None, note: str = "", /) -> None:
            if label == "embed chunks for static" and not killed:
                nodes.kill_one()
                killed.append(done)

        yield advance

    file = experiment / "experiment.yaml"
    options = {"type": "ray", "address": nodes.address, "workers": 2, "shard_rows": 200}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(yaml.safe_dump({"compute": options}))
    there = evaluated(experiment, tmp_path / "there", killing)
    release_workers()
    assert 0 < killed[0] < N_DOCUMENTS
    assert {"DocumentCut", "_analysed", "_hits", "search_shard"} < sent
    analysed = term_counts_key(here.experiment, "words")
    assert analysed is not None
    for key in (chunks_key("parts"), analysed):
        assert there.artifact(key).manifest.digests == here.artifact(key).manifest.digests
    for retriever in ("static", "words"):
        assert run(there, retriever).equals(run(here, retriever))
    ours, theirs = run(here, "reranked"), run(there, "reranked")
    assert theirs.drop(["score"]).equals(ours.drop(["score"]))
    np.testing.assert_allclose(theirs.column("score"), ours.column("score"), atol=1e-5)


@pytest.mark.slow
def test_what_the_work_says_is_said_here(nodes: Nodes) -> None:
    compute = compute_of(ComputeConfig(type="ray", address=nodes.address, workers=1))
    with pytest.raises(UsageError) as raised:
        list(compute.map(parse_metric, [("sharpness",)]))
    with pytest.raises(UsageError) as expected:
        parse_metric("sharpness")
    assert str(raised.value) == str(expected.value)


@pytest.mark.slow
def test_a_local_language_model_answers_on_all_nodes(nodes: Nodes, tmp_path: Path) -> None:
    cluster = compute_of(ComputeConfig(type="ray", address=nodes.address, workers=2))
    model = str(save_t5(tmp_path / "t5"))
    requests = [asking(word, max_tokens=4, temperature=1.5, seed=7) for word in WORDS[3:]]
    there = LocalTransformers(model, compute=cluster)
    assert there.concurrency == 2
    answers = untimed(answers_of(there, requests))
    assert answers == untimed(answers_of(LocalTransformers(model), requests))


@pytest.mark.slow
def test_a_resource_of_dagster_ray_brings_the_cluster(
    nodes: Nodes, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address in the YAML leads nowhere: only the resource can have connected."""
    import dagster as dg
    import ray
    from dagster_ray import RayResource

    class OwnCluster(RayResource):
        """The nodes of this test, which run before it and after it."""

        @property
        def host(self) -> str:
            return "127.0.0.1"

        @property
        def name(self) -> str:
            return "nodes"

        @property
        def ray_address(self) -> str:
            return nodes.address

        @property
        def created(self) -> bool:
            return True

        @property
        def ready(self) -> bool:
            return True

    monkeypatch.setenv("PYTHONBREAKPOINT", "0")  # Ray sets it, and leaves it
    release_workers()
    folder = tmp_path / "several"
    shutil.copytree(experiment, folder)
    config = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    config["compute"] = {"type": "ray", "address": "127.0.0.1:1", "shard_rows": 200}
    (folder / "experiment.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(ComputeUnavailable, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        evaluated(folder, tmp_path / "alone")
    defs = rag_assets.build_defs(folder, store=tmp_path / "store", ray="cluster")
    with_cluster = dg.Definitions.merge(defs, dg.Definitions(resources={"cluster": OwnCluster()}))
    assert with_cluster.get_job_def("several_evaluate").execute_in_process().success
    assert not ray.is_initialized()
