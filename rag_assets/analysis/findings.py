"""What of an evaluation is missing or failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.stage import answers_key
from rag_assets.engine.recipe import UNANSWERED

MAX_ROWS = 3
"""So many failed queries are told, each with its reason."""


def incomplete_parts(result: EvaluationResult) -> list[str]:
    """Return what of an evaluation is missing, and on which queries a retriever failed."""
    if result.evaluation.complete:
        return []
    return [*_missing(result), *_failed(result)] or ["not every cell was up to date at its end"]


def _missing(result: EvaluationResult) -> Iterator[str]:
    if not result.has_metrics:
        return
    entries = result.evaluation.entries_of("metrics")
    cells = {(entry.partition["retriever"], entry.partition["top_k"]) for entry in entries}
    for name in result.configured("retrievers"):
        missing = [str(k) for k in result.configured("top_k") if (name, str(k)) not in cells]
        if missing:
            yield f"{name} has no cell at top_k {', '.join(missing)}"


def _failed(result: EvaluationResult) -> Iterator[str]:
    for entry, manifest in result.manifests_of("index_texts"):
        if number := manifest.facts.get(UNANSWERED):
            yield f"{entry.partition['chunking']} lacks texts of {number} chunks"
    keys = {name: list(result.run_keys(name).values()) for name in result.run_retrievers}
    for name in result.answer_metrics:
        stored = result.manifest(answers_key(name))
        # What a file of answers lacks is a finding, which no other evaluation changes.
        if stored is not None and stored.facts.get(UNANSWERED):
            keys[name] = [answers_key(name)]
    by_file = failed_by_file(result)
    for name, partitions in keys.items():
        failures = {q: why for key in partitions for q, why in result.failures(key).items()}
        of_file = by_file.get(name, {})
        if by_search := {query: why for query, why in failures.items() if query not in of_file}:
            yield failed_text(name, by_search)


def failed_text(name: str, failures: Mapping[str, str]) -> str:
    """Return on which queries something failed, and why."""
    reasons = [f"{query}: {why}" for query, why in sorted(failures.items())[:MAX_ROWS]]
    more = "" if len(failures) <= MAX_ROWS else f"; and {len(failures) - MAX_ROWS} more"
    return f"{name} failed on queries: {'; '.join(reasons)}{more}"


def failed_by_file(result: EvaluationResult) -> dict[str, dict[str, str]]:
    """Return retriever -> query -> why it failed, says the run file that it is, or reads."""
    imported = {
        entry.partition["retriever"]: manifest.failures
        for entry, manifest in result.manifests_of("external_rankings")
        if UNANSWERED not in manifest.facts
    }
    failures = {
        name: {q: why for n in read_by(result, name) for q, why in imported.get(n, {}).items()}
        for name in result.run_retrievers
    }
    return {name: of_file for name, of_file in failures.items() if of_file}


def read_by(result: EvaluationResult, retriever: str) -> list[str]:
    """Return a retriever, and all that it fuses or reranks, as it was configured."""
    inputs = inputs_of(result, retriever)
    return [retriever, *(name for source in inputs for name in read_by(result, source))]


def inputs_of(result: EvaluationResult, retriever: str) -> list[str]:
    """Return what a retriever itself fuses or reranks."""
    block = result.configured("retrievers").get(retriever, {})
    return [*([block["input"]] if "input" in block else ()), *block.get("inputs", ())]


def mean_name(result: EvaluationResult) -> str:
    """Return ``mean``, or ``weighted mean`` where queries count differently."""
    weights = result.weights(result.split).values() if result.has_metrics else ()
    return "weighted mean" if any(weight != 1 for weight in weights) else "mean"


def chosen_analyzers(result: EvaluationResult) -> dict[str, str]:
    """Return the analyzer of each lexical retriever: ``german``, or ``auto: german``."""
    chosen = {}
    for entry, manifest in result.manifests_of("lexical_index"):
        configured, used = manifest.config.get("analyzer"), manifest.facts.get("analyzer")
        if configured and used:
            is_named = used.startswith(configured)
            chosen[entry.partition["retriever"]] = used if is_named else f"{configured}: {used}"
    return chosen
