"""The real tools, each behind one function that scores a sample with every metric we know of it.

A tool's package is imported inside its function; ImportError means that it is not installed.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

CUTOFFS = (1, 5, 10)

Sample = Mapping[str, Any]
"""``run``: query -> [id, score] pairs, best first; ``groups``: query -> lists of ids; ``grades``:
query -> id -> grade."""

Numbers = dict[str, dict[str, Any]]
"""Metric -> ``mean`` and ``per_query``, or ``error``: the exception that the tool raised."""


def relevant(sample: Sample, query: str) -> list[str]:
    return [item for item, grade in sample["grades"][query].items() if grade > 0]


def ids(sample: Sample, query: str) -> list[str]:
    return [item for item, _ in sample["run"].get(query, [])]


def number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), 12)


def attempt(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return compute()
    except (ValueError, KeyError, ZeroDivisionError) as error:
        return {"error": type(error).__name__}


def mean(values: list[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return number(sum(found) / len(found)) if found else None


def listwise(sample: Sample, one: Callable[[str, list[str]], float | None]) -> dict[str, Any]:
    """Mean and values of a metric that looks at one list at a time."""
    values = {query: one(query, ids(sample, query)) for query in sample["groups"]}
    return {"mean": mean(list(values.values())), "per_query": values}


def autorag(sample: Sample) -> Numbers:
    """AutoRAG's package imports all that it can use; only its two files of metrics are loaded."""
    root = Path(str(distribution("AutoRAG").locate_file("autorag")))
    for name in ("", ".evaluation", ".evaluation.metric", ".schema", ".utils"):
        module = types.ModuleType(f"autorag{name}")
        module.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[f"autorag{name}"] = module
    util: Any = types.ModuleType("autorag.utils.util")
    util.convert_inputs_to_list = lambda function: function
    sys.modules["autorag.utils.util"] = util
    retrieval: Any = import_module("autorag.evaluation.metric.retrieval")
    schema: Any = import_module("autorag.schema.metricinput")

    def one(name: str, k: int | None) -> Callable[[str, list[str]], float | None]:
        def value(query: str, ranking: list[str]) -> float | None:
            given = schema.MetricInput(
                retrieval_gt=sample["groups"][query], retrieved_ids=ranking[:k]
            )
            return number(getattr(retrieval, name)([given])[0])

        return value

    names = [f"retrieval_{part}" for part in ("f1", "recall", "precision", "ndcg", "mrr", "map")]
    return {
        name if k is None else f"{name}@{k}": listwise(sample, one(name, k))
        for name in names
        for k in (None, *CUTOFFS)
    }


def llamaindex(sample: Sample) -> Numbers:
    metrics: Any = import_module("llama_index.core.evaluation.retrieval.metrics")

    classes = [
        metrics.HitRate,
        metrics.MRR,
        metrics.Precision,
        metrics.Recall,
        metrics.AveragePrecision,
        metrics.NDCG,
    ]

    def one(metric: Any, k: int | None) -> Callable[[str, list[str]], float | None]:
        def value(query: str, ranking: list[str]) -> float | None:
            given = {"expected_ids": relevant(sample, query), "retrieved_ids": ranking[:k]}
            return number(metric.compute(**given).score)

        return value

    found: Numbers = {}
    for kind in classes:
        for k in (None, *CUTOFFS):
            name = kind.metric_name if k is None else f"{kind.metric_name}@{k}"
            found[name] = attempt(partial(listwise, sample, one(kind(), k)))
    return found


def mlflow(sample: Sample) -> Numbers:
    metrics: Any = import_module("mlflow.metrics")
    pd: Any = import_module("pandas")

    queries = list(sample["groups"])
    predictions = pd.Series([ids(sample, query) for query in queries])
    targets = pd.Series([relevant(sample, query) for query in queries])
    found = {}
    for name in ("precision", "recall", "ndcg"):
        for k in CUTOFFS:
            values = getattr(metrics, f"{name}_at_k")(k).eval_fn(predictions, targets)
            found[f"{name}_at_{k}"] = {
                "mean": number(values.aggregate_results["mean"]),
                "per_query": dict(zip(queries, map(number, values.scores), strict=True)),
            }
    return found


def sentence_transformers(sample: Sample) -> Numbers:
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
    )

    ks = list(CUTOFFS)

    def scored(queries: list[str]) -> dict[str, dict[int, float]]:
        evaluator = InformationRetrievalEvaluator(
            {query: query for query in queries},
            {},
            {query: set(relevant(sample, query)) for query in queries},
            mrr_at_k=ks,
            ndcg_at_k=ks,
            accuracy_at_k=ks,
            precision_recall_at_k=ks,
            map_at_k=ks,
        )
        lists: list[object] = [
            [{"corpus_id": item, "score": score} for item, score in sample["run"].get(query, [])]
            for query in evaluator.queries_ids
        ]
        return dict(evaluator.compute_metrics(lists))

    answerable = [query for query in sample["groups"] if relevant(sample, query)]
    together = scored(answerable)
    alone = {query: scored([query]) for query in answerable}
    return {
        name.replace("@k", f"@{k}"): {
            "mean": number(value),
            "per_query": {
                q: number(alone[q][name][k]) if q in alone else None for q in sample["groups"]
            },
        }
        for name, values in together.items()
        for k, value in values.items()
    }


def beir(sample: Sample) -> Numbers:
    tool: Any = import_module("beir.retrieval.evaluation").EvaluateRetrieval

    ks = list(CUTOFFS)
    qrels = sample["grades"]

    def scored(queries: list[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Values, and errors by metric; BEIR changes the results that it is given."""
        wanted = {query: qrels[query] for query in queries if query in qrels}
        results = {q: dict(map(tuple, sample["run"][q])) for q in queries if q in sample["run"]}
        values: dict[str, float] = {}
        errors: dict[str, str] = {}
        try:
            for part in tool.evaluate(wanted, results, ks):
                values |= part
        except ZeroDivisionError as error:
            errors |= dict.fromkeys(("NDCG", "MAP", "Recall", "P"), type(error).__name__)
        for asked, name in (
            ("mrr", "MRR"),
            ("r_cap", "R_cap"),
            ("hole", "Hole"),
            ("acc", "Accuracy"),
        ):
            try:
                values |= tool.evaluate_custom(wanted, results, ks, asked)
            except (KeyError, ZeroDivisionError) as error:
                errors[name] = type(error).__name__
        return values, errors

    values, errors = scored([*sample["run"], *(q for q in qrels if q not in sample["run"])])
    alone = {query: scored([query])[0] for query in qrels}
    found: Numbers = {f"{name}@{k}": {"error": error} for name, error in errors.items() for k in ks}
    for name, value in values.items():
        single = {query: alone[query].get(name) for query in qrels}
        # Hole looks at the judgments of all queries, of which a single query has not all.
        found[name] = {"mean": value} | ({} if "Hole" in name else {"per_query": single})
    return found


def ragas(sample: Sample) -> Numbers:
    """The tool's own metrics, with a model that says what the grades say."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    metrics: Any = import_module("ragas.metrics._context_precision")

    class Judge:
        def __init__(self, useful: list[str]) -> None:
            self.useful = useful

        async def generate_multiple(self, data: Any, **_: Any) -> list[Any]:
            verdict = int(data.context in self.useful)
            return [metrics.Verification(reason="", verdict=verdict)]

    def one(kind: Any, k: int | None) -> Callable[[str, list[str]], float | None]:
        def value(query: str, ranking: list[str]) -> float | None:
            if query not in sample["run"]:
                return None
            judge = Judge(relevant(sample, query))
            metric = kind(llm=object(), context_precision_prompt=judge)
            row = {"user_input": query, "retrieved_contexts": ranking[:k]}
            row |= {"reference": "answer", "response": "answer"}
            return number(asyncio.run(metric._ascore(row, [])))

        return value

    kinds = [
        metrics.LLMContextPrecisionWithReference,
        metrics.LLMContextPrecisionWithoutReference,
    ]
    return {
        kind.name if k is None else f"{kind.name}@{k}": listwise(sample, one(kind, k))
        for kind in kinds
        for k in (None, *CUTOFFS)
    }


def ranx(sample: Sample) -> Numbers:
    package: Any = import_module("ranx")

    plain = ("hits", "hit_rate", "precision", "recall", "f1", "mrr", "map", "dcg", "dcg_burges")
    names = [*plain, "ndcg", "ndcg_burges"]
    asked = [*names, *(f"{name}@{k}" for name in names for k in CUTOFFS), "r-precision", "bpref"]
    asked += ["rbp.95", "rbp.50", "ndcg@5-l2", "map-l2", "f1@3-l2", "r-precision-l2"]
    if not all(relevant(sample, query) for query in sample["grades"]):
        # A division by zero breaks off its parallel loop: what the others get is chance.
        asked.remove("bpref")
    run = package.Run({query: dict(map(tuple, hits)) for query, hits in sample["run"].items()})
    means = package.evaluate(package.Qrels(sample["grades"]), run, asked, make_comparable=True)
    found: Numbers = {}
    for name in asked:
        values = {query: number(run.scores[name][query]) for query in sample["grades"]}
        found[name] = {"mean": number(means[name]), "per_query": values}
    return found


TOOLS: dict[str, tuple[str, Callable[[Sample], Numbers]]] = {
    "autorag": ("AutoRAG", autorag),
    "llamaindex": ("llama-index-core", llamaindex),
    "mlflow": ("mlflow-skinny", mlflow),
    "sentence_transformers": ("sentence-transformers", sentence_transformers),
    "beir": ("beir", beir),
    "ragas": ("ragas", ragas),
    "ranx": ("ranx", ranx),
}
"""Dialect -> the distribution and its function."""
