"""Hits, scores and metric values of every retriever type on real data, as digests a query.

``python -m tests.nets.bits`` keeps them in ``bits.json``; ``--only bm25`` compares (or with
``--renew`` keeps) the retrievers whose names contain a word, ``--data cranfield`` one data set.
Set OMP_NUM_THREADS=1: the order of sums depends on threads. All documents are searched by what is
lexical and by a static model; models of transformers see 40 passages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import yaml

from rag_assets.evaluation.leaderboard import UNIT_TOKENS
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.nets import kept
from tests.nets.experiments import build, places
from tests.static_model import save_static_model

FILE = kept.FOLDER / "bits.json"
COMMAND = "OMP_NUM_THREADS=1 python -m tests.nets.bits --renew"
DATA = Path(os.environ.get("RAG_ASSETS_SHARED_DATA") or kept.FOLDER.parents[2] / "shared" / "data")
LANGUAGES = ("ar", "de", "es", "ru", "th", "zh")
DATA_SETS = ("cranfield", "squad", *(f"xquad.{one}" for one in LANGUAGES), "seed_doc_qa", "few")
QUERIES = 60
"""Questions of SQuAD and of each language of XQuAD."""
FEW = 40
"""Passages and questions for models that take time."""
DEPTH = 10

_BM25: Mapping[str, Mapping[str, Any]] = {
    "bm25": {},
    **{f"bm25 {v}": {"variant": v} for v in ("robertson", "atire", "bm25l", "bm25plus")},
    "bm25 rm3": {"expand": {"type": "rm3"}},
    "bm25 okapi": {"variant": "okapi"},
}
_TFIDF = {f"tfidf {w}": {"weighting": w} for w in ("raw", "length_normalised", "sklearn")}
_DENSE = {
    "static": {},
    "static dot": {"similarity": "dot"},
    "static euclidean": {"similarity": "euclidean"},
    "static hnsw": {"index": "hnsw"},
}
_FUSED = {"rrf": {}, "convex": {}, "comb_sum": {"normalisation": "z_score"}, "borda": {}}
_RERANKED = {"mmr": {}, "keep": {"max_similarity": 0.9}}


def retrievers(model: Path, **options: str) -> dict[str, dict[str, Any]]:
    """Return what searches all documents, by name; ``options`` are those of the model."""
    named = {"model": str(model), **options}
    pair = {"inputs": ["bm25", "static"]}
    above = {"input": "bm25", "candidates": 20, **named}
    return {
        **{name.replace(" ", "-"): {"type": "bm25", **one} for name, one in _BM25.items()},
        **{name.replace(" ", "-"): {"type": "tfidf", **one} for name, one in _TFIDF.items()},
        **{
            name.replace(" ", "-"): {"type": "embedding", **named, **one}
            for name, one in _DENSE.items()
        },
        **{name: {"type": name, **pair, **one} for name, one in _FUSED.items()},
        **{name: {"type": name, **above, **one} for name, one in _RERANKED.items()},
        "tuned": {"type": "rrf", **pair, "weights": "tuned"},
    }


def write(name: str, root: Path, made: Mapping[str, str]) -> Path:
    """Write an experiment on one data set into a folder; return the folder.

    ``made`` is what stands for the names in angle brackets in ``experiments.yaml``.
    """
    folder = root / name
    folder.mkdir(parents=True)
    if name == "few":
        return _few(root, made)
    if name == "cranfield":
        texts = _lines(DATA / name / "corpus.jsonl")
        dataset = {"path": str(DATA / name), "format": "beir"}
    elif name == "squad":
        texts = _squad(DATA / "squad_dev_v2", folder)
        dataset = {"path": ".", "format": "beir"}
    elif name == "seed_doc_qa":
        file = DATA / name / "doc_qa_test.json"
        texts = list(json.loads(file.read_text(encoding="utf-8"))["corpus"].values())
        dataset = {"path": str(file), "format": "llamaindex"}
    else:
        texts = _xquad(DATA / "xquad" / f"{name}.json", folder / "xquad.json")
        dataset = {"path": "xquad.json", "format": "squad"}
    model = save_static_model(root / f"{name}-model", texts)
    # A document of Cranfield is empty; it has a direction with words before it only.
    before = {"document_prompt": "the text: "} if name == "cranfield" else {}
    config = {"dataset": dataset, "retrievers": retrievers(model, **before), "split": {"dev": 0.5}}
    return _experiment(name, folder, config)


def _experiment(name: str, folder: Path, config: Mapping[str, Any]) -> Path:
    plain = {"name": name, "top_k": [DEPTH], "measurements": {"latency_sample": 0}}
    text = yaml.safe_dump({**plain, **config}, sort_keys=False)
    (folder / "experiment.yaml").write_text(text, encoding="utf-8")
    return folder


def _lines(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]


def _squad(source: Path, folder: Path) -> list[str]:
    """Copy all passages, and some of the questions that have an answer."""
    qrels = (source / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    step = len(qrels) // QUERIES
    chosen = qrels[1::step][:QUERIES]
    ids = {line.split("\t")[0] for line in chosen}
    (folder / "qrels").mkdir()
    (folder / "qrels/test.tsv").write_text("\n".join([qrels[0], *chosen]), encoding="utf-8")
    queries = (source / "queries.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    own = [line for line in queries if json.loads(line)["_id"] in ids]
    (folder / "queries.jsonl").write_text("".join(own), encoding="utf-8")
    corpus = source / "corpus.jsonl"
    (folder / "corpus.jsonl").write_bytes(corpus.read_bytes())
    return _lines(corpus)


def _xquad(source: Path, file: Path) -> list[str]:
    """Copy all paragraphs, and the first question of some of them."""
    data = json.loads(source.read_text(encoding="utf-8"))
    paragraphs = [one for article in data["data"] for one in article["paragraphs"]]
    step = len(paragraphs) // QUERIES
    for number, paragraph in enumerate(paragraphs):
        paragraph["qas"] = paragraph["qas"][:1] if number % step == 0 else []
    file.write_text(json.dumps(data), encoding="utf-8")
    return [one["context"] for one in paragraphs]


def _few(root: Path, made: Mapping[str, str]) -> Path:
    """Write some passages of seed_doc_qa for the retrievers of the small experiments."""
    (root / "few").rmdir()
    data = json.loads((DATA / "seed_doc_qa" / "doc_qa_test.json").read_text(encoding="utf-8"))
    asked = list(data["relevant_docs"].items())[:FEW]
    found = [name for _, names in asked for name in names]
    given = {
        "queries": {query: data["queries"][query] for query, _ in asked},
        "corpus": {name: data["corpus"][name] for name in found},
        "relevant_docs": dict(asked),
        "mode": "text",
    }
    config: dict[str, Any] = {}
    for name in ("embedding", "reranking"):
        config |= build(name, root / name, made).config["retrievers"]
    config.pop("given")
    for options in config.values():
        options.pop("query_set", None)
        options.pop("analyzer", None)
        if "chunking" in options:
            options["chunking"] = "whole" if options["chunking"] == "whole" else "parts"
    chunking = {
        "whole": {"strategy": "none"},
        "parts": {"strategy": "recursive", "max_tokens": 100, "overlap": 10},
    }
    folder = root / "few"
    folder.mkdir()
    (folder / "few.json").write_text(json.dumps(given), encoding="utf-8")
    dataset = {"path": "few.json", "format": "llamaindex", "judge": "document"}
    return _experiment(
        "few", folder, {"dataset": dataset, "chunking": chunking, "retrievers": config}
    )


def digests(name: str, root: Path, made: Mapping[str, str], only: str) -> dict[str, dict[str, str]]:
    """Return retriever -> digests of its hits, scores and metrics, a query after the other."""
    experiment = load_experiment(write(name, root, made))
    pipeline = Pipeline(experiment, StoreSettings.resolve(root / f"{name}-store"))
    chosen = [one for one in experiment.retrievers if only in one]
    if not chosen:
        return {}
    for asset, keys in required_partitions(experiment, Selection.of(experiment, chosen)).items():
        if asset not in _NOT_NEEDED:
            pipeline.materialize(asset, keys)
    found = {}
    for retriever in chosen:
        runs = pipeline.artifact(run_key(experiment, retriever, DEPTH)).table().to_pylist()
        key = ArtifactKey.of("metrics", retriever=retriever, top_k=str(DEPTH))
        metrics = pipeline.artifact(key).table().to_pylist()
        found[retriever] = {
            "hits": _by_query(runs, ("rank", "unit_id", "chunk_id", "document_id")),
            "scores": _by_query(runs, ("score",)),
            "metrics": _by_query(metrics, sorted(metrics[0].keys() - {"query_id", UNIT_TOKENS})),
        }
    return found


_NOT_NEEDED = (
    "metrics_summary",
    "intervals",
    "comparisons",
    "leaderboard",
    "answerability",
    "overlaps",
    "attributions",
    "list_similarities",
)


def _by_query(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> str:
    """Return four hexadecimal digits for each query, in the order of their ids."""
    named = list(columns)
    queries: dict[str, list[list[Any]]] = {}
    for row in rows:
        queries.setdefault(row["query_id"], []).append([row[name] for name in named])
    return " ".join(
        hashlib.sha256(repr(queries[one]).encode()).hexdigest()[:4] for one in sorted(queries)
    )


def all_digests(names: Iterable[str], only: str, root: Path) -> Iterator[tuple[str, Any]]:
    """Yield each data set with the digests of its retrievers, and tell how long it took."""
    with places(root) as made:
        for name in names:
            started = time.process_time()
            yield name, digests(name, root, made, only)
            click.echo(f"{name}: {time.process_time() - started:.0f} CPU s", err=True)


def compared(names: Iterable[str], only: str, root: Path) -> list[str]:
    """Return a line for each retriever of which anything differs from what is kept."""
    before, lines = kept.read(FILE), []
    for name, now in all_digests(names, only, root):
        for retriever, parts in now.items():
            for part, text in parts.items():
                old = before[name].get(retriever, {}).get(part, "").split()
                new = text.split()
                n = sum(a != b for a, b in zip(old, new, strict=False)) + abs(len(old) - len(new))
                if n:
                    lines.append(f"{name} {retriever}: {part} of {n} of {len(new)} queries differ")
    return lines


def is_comparable() -> bool:
    """Return whether sums are made in the order in which those that are kept were made."""
    same = kept.read(FILE).get("machine") == kept.machine()
    return same and os.environ.get("OMP_NUM_THREADS") == "1"


def main() -> None:
    """Compare with what is kept, or keep what is now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="retrievers whose names contain this")
    parser.add_argument("--data", choices=DATA_SETS, action="append", help="these data sets")
    parser.add_argument("--renew", action="store_true", help="keep what is now")
    given = parser.parse_args()
    names = given.data or DATA_SETS
    with TemporaryDirectory() as folder:
        if not given.renew:
            lines = compared(names, given.only, Path(folder))
            click.echo("\n".join(lines) or "all bits are the same")
            sys.exit(1 if lines else 0)
        now = kept.read(FILE) | {"machine": kept.machine()}
        for name, found in all_digests(names, given.only, Path(folder)):
            now[name] = now.get(name, {}) | found
            FILE.write_text(f"{kept.text_of(now, 2)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
