"""What the indexes of embedded engines lose against exact search: recall, and nDCG with interval.

    python benchmarks/vector_engines.py [--quick]

The 1,204 paragraphs of SQuAD 2.0 dev, 1,000 of its answerable questions, the default model.
``exact`` is ``type: embedding``; all others search the same vectors. The recall is
``exact_recall_at_10`` of the runs, over 200 questions; the loss is the difference of nDCG@10 to
``exact`` in ``comparisons``, its interval by resampling paragraphs. A type whose package is absent
is left out (``make engines``).
"""

from __future__ import annotations

import argparse
import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import yaml
from data_sets import REPOSITORY, find
from squad_subset import questions_with_an_answer, with_questions

from rag_assets.api import evaluate
from rag_assets.experiment import load_experiment
from rag_assets.package_versions import version
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.base_runs_stage import RECALL
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.statistics.comparisons_stage import COMPARISONS_KEY
from rag_assets.store.settings import StoreSettings

FOLDER = REPOSITORY / "build" / "benchmarks" / "vector_engines"
DEPTH = 10
EXACT = "exact"
PACKAGES = {
    "embedding": ("faiss", "faiss-cpu"),
    "qdrant": ("qdrant_client", "qdrant-client"),
    "lancedb": ("lancedb", "lancedb"),
    "milvus_lite": ("milvus_lite", "milvus-lite"),
    "chroma": ("chromadb", "chromadb"),
}
"""Type -> module and package."""


def retrievers() -> dict[str, dict[str, Any]]:
    """Return what is compared; so few paragraphs are four partitions of LanceDB at most."""
    lance = {"type": "lancedb", "partitions": 4}
    milvus = {"type": "milvus_lite"}
    parts = {**milvus, "index": "ivf_flat", "partitions": 32}
    found: dict[str, dict[str, Any]] = {
        EXACT: {"type": "embedding"},
        "faiss HNSW, ef 16": {
            "type": "embedding",
            "index": "hnsw",
            "hnsw": {"m": 16, "ef_search": 16},
        },
        "Qdrant in process": {"type": "qdrant"},
        "LanceDB IVF-PQ, 1 probe": {**lance, "probes": 1},
        "LanceDB IVF-PQ, 2 probes": {**lance, "probes": 2},
        "LanceDB IVF-PQ, 4 probes": {**lance, "probes": 4},
        "LanceDB IVF-PQ, 4 probes, 96 sub-vectors": {**lance, "probes": 4, "sub_vectors": 96},
        "LanceDB IVF-PQ, 4 probes, refine 50": {**lance, "probes": 4, "refine": 50},
        "Milvus Lite FLAT": {**milvus, "index": "flat"},
        "Milvus Lite HNSW, ef 16": {**milvus, "ef_search": 16},
        "Milvus Lite HNSW, ef 64": {**milvus, "ef_search": 64},
        "Milvus Lite HNSW_SQ, ef 64": {**milvus, "index": "hnsw_sq", "ef_search": 64},
        "Milvus Lite IVF_FLAT, 1 of 32 probed": {**parts, "probes": 1},
        "Milvus Lite IVF_FLAT, 4 of 32 probed": {**parts, "probes": 4},
        "Milvus Lite IVF_SQ8, 4 of 32 probed": {**parts, "index": "ivf_sq8", "probes": 4},
        "Chroma HNSW, ef 10": {"type": "chroma", "ef_search": 10},
        "Chroma HNSW, ef 100": {"type": "chroma"},
    }
    return {
        name: one for name, one in found.items() if find_spec(PACKAGES[one["type"]][0]) is not None
    }


def write(folder: Path, n_questions: int) -> Path:
    """Write the data and the experiment, and return its file."""
    content = json.loads(find("squad").read_text(encoding="utf-8"))
    ids = questions_with_an_answer(content["data"])
    ids = random.Random(0).sample(sorted(ids), n_questions)
    folder.mkdir(parents=True, exist_ok=True)
    data = {"version": "", "data": with_questions(content["data"], set(ids))}
    (folder / "squad.json").write_text(json.dumps(data), encoding="utf-8")
    config = {
        "name": "vector_engines",
        "dataset": {"path": "squad.json", "format": "squad", "judge": "document"},
        "retrievers": {slug(name): one for name, one in retrievers().items()},
        "metrics": ["ndcg", "recall"],
        "top_k": [DEPTH],
        "primary": f"ndcg@{DEPTH}",
        "baseline": EXACT,
        "statistics": {"cluster": "document"},
        "measurements": {"latency_sample": 0},
    }
    (folder / "experiment.yaml").write_text(
        yaml.safe_dump(config, sort_keys=False), encoding="utf-8"
    )
    return folder / "experiment.yaml"


def slug(name: str) -> str:
    """Return the name of a retriever."""
    return "-".join("".join(c if c.isalnum() else " " for c in name).lower().split())


def rows(pipeline: Pipeline) -> list[list[str]]:
    """Return of each retriever: recall, nDCG, its loss, and the interval of that."""
    compared = {
        row["retriever_b"]: row
        for row in pipeline.artifact(COMPARISONS_KEY).table().to_pylist()
        if row["retriever_a"] == EXACT and row["split"] == "all"
    }
    found = []
    for name in retrievers():
        if name == EXACT:
            continue
        facts = pipeline.artifact(run_key(pipeline.experiment, slug(name), DEPTH)).manifest.facts
        row = compared[slug(name)]
        loss, low, high = -row["difference"], -row["high"], -row["low"]
        recall = f"{facts[RECALL]:.4f}" if RECALL in facts else "-"
        interval = f"{low + 0.0:.4f} to {high + 0.0:.4f}"
        found.append([name, recall, f"{row['mean_b']:.4f}", f"{loss + 0.0:.4f}", interval])
    return [[EXACT, "", f"{row['mean_a']:.4f}", "", ""], *found]


def main() -> None:
    """Evaluate, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="300 questions")
    quick = parser.parse_args().quick
    folder = FOLDER / ("quick" if quick else "full")
    experiment = write(folder, 300 if quick else 1_000)
    evaluate(experiment, folder / "store")
    pipeline = Pipeline(load_experiment(experiment), StoreSettings.resolve(folder / "store"))
    click.echo(f"| index | recall@{DEPTH} | nDCG@{DEPTH} | loss | 95% interval |")
    click.echo("|---|---|---|---|---|")
    for row in rows(pipeline):
        click.echo(f"| {' | '.join(row)} |")
    used = {PACKAGES[one["type"]][1] for one in retrievers().values()}
    click.echo(", ".join(f"{name} {version(name)}" for name in sorted(used)))


if __name__ == "__main__":
    main()
