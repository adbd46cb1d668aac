"""The real tools, each behind one function that scores a sample with every metric we know of it.

A tool's package is imported inside its function; ImportError means that it is not installed.
``golden.json`` keeps what the packages say. Run from the repository's root with an interpreter that
has the package, this renews the section of a tool, and leaves the samples and others:

    python -m tests.evaluation.dialects.tools ragas
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import distribution, version
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
    metrics: Any = import_module("ragas.metrics._context_precision")

    class Judge:
        def __init__(self, useful: list[str]) -> None:
            self.useful = useful

        async def generate_multiple(self, data: Any, **_: Any) -> list[Any]:
            return [metrics.Verification(reason="", verdict=int(data.context in self.useful))]

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

    kinds = [metrics.LLMContextPrecisionWithReference, metrics.LLMContextPrecisionWithoutReference]
    return {
        kind.name if k is None else f"{kind.name}@{k}": listwise(sample, one(kind, k))
        for kind in kinds
        for k in (None, *CUTOFFS)
    }


TOOLS: dict[str, tuple[str, Callable[[Sample], Numbers]]] = {
    "autorag": ("AutoRAG", autorag),
    "llamaindex": ("llama-index-core", llamaindex),
    "beir": ("beir", beir),
    "ragas": ("ragas", ragas),
}
"""Dialect -> the distribution and its function."""

GOLDEN = Path(__file__).with_name("golden.json")


def write(tool: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    package, numbers = TOOLS[tool]
    golden["tools"][tool] = {
        "package": package,
        "version": version(package),
        "numbers": {
            name: numbers(sample)
            for name, sample in golden["samples"].items()
            if tool in sample["tools"]
        },
    }
    golden = {"samples": golden["samples"], "tools": dict(sorted(golden["tools"].items()))}
    GOLDEN.write_text(_short(golden) + "\n", encoding="utf-8")


def _short(value: object, depth: int = 0) -> str:
    """JSON with one line for each metric of each sample."""
    if not isinstance(value, dict) or depth >= 5 or not value:
        return json.dumps(value)
    indent = " " * (depth + 1)
    lines = [f"{indent}{json.dumps(key)}: {_short(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


if __name__ == "__main__":
    write(sys.argv[1])
