"""What of an evaluation is missing or failed, and when an analyzer is why nothing was retrieved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from rag_assets.answers.stage import answers_key
from rag_assets.engine.recipe import UNANSWERED
from rag_assets.report.result import EvaluationResult
from rag_assets.store.artifacts import Manifest

SHOWN = 3
"""So many failed queries are told, each with its reason."""


def incomplete_parts(result: EvaluationResult) -> list[str]:
    """Return what of an evaluation is missing, and on which queries a retriever failed."""
    if result.evaluation.complete:
        return []
    return [*_missing(result), *_failed(result)] or ["not every cell was up to date at its end"]


def _missing(result: EvaluationResult) -> Iterator[str]:
    configuration = result.evaluation.origin.configuration
    if not result.has_metrics:
        return
    entries = result.evaluation.entries_of("metrics")
    cells = {(entry.partition["retriever"], entry.partition["top_k"]) for entry in entries}
    for name in configuration.get("retrievers", {}):
        missing = [str(k) for k in configuration["top_k"] if (name, str(k)) not in cells]
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
    for name, partitions in keys.items():
        failures: dict[str, str] = {}
        for key in partitions:
            failures |= result.failures(key)
        if failures:
            shown = [f"{query}: {why}" for query, why in sorted(failures.items())[:SHOWN]]
            more = "" if len(failures) <= SHOWN else f"; and {len(failures) - SHOWN} more"
            yield f"{name} failed on queries: {'; '.join(shown)}{more}"


MANY = 0.1
"""From this share of the queries on, empty results have a cause that is worth a word."""


class Chosen(NamedTuple):
    """The analyzer of a retriever as it is configured, and the one that it came to."""

    configured: str
    used: str

    def __str__(self) -> str:
        """Return ``auto: german``, or one name."""
        return self.used if self.is_named else f"{self.configured}: {self.used}"

    @property
    def is_named(self) -> bool:
        """Whether it was not ``auto`` that chose it; the end says ``+identifiers`` or nothing."""
        return self.used.startswith(self.configured)


def chosen_analyzer(manifest: Manifest) -> Chosen | None:
    """Return what the manifest of a lexical index says; None where it has no analyzer."""
    configured, used = manifest.config.get("analyzer"), manifest.facts.get("analyzer")
    return Chosen(configured, used) if configured and used else None


def chosen_analyzers(result: EvaluationResult) -> dict[str, Chosen]:
    """Return the analyzer of each retriever that has one."""
    chosen = {
        entry.partition["retriever"]: chosen_analyzer(manifest)
        for entry, manifest in result.manifests_of("lexical_index")
    }
    return {name: analyzer for name, analyzer in chosen.items() if analyzer is not None}


def likely_cause(result: EvaluationResult, retriever: str, n_empty: int, n_queries: int) -> str:
    """Return "; ..." naming the analyzer where many results are empty; "" where there is no cause.

    Filters may leave a query nothing as well, so nothing is said of an evaluation that has any.
    """
    filters = [result.evaluation.entries_of(f"{kind}_filters") for kind in ("query", "written")]
    if n_empty < max(1, MANY * n_queries) or any(filters):
        return ""
    chosen = chosen_analyzers(result).get(retriever)
    if chosen is None:
        return ""
    other = "`analyzer: auto`" if chosen.is_named else "another analyzer"
    return (
        f"; the likely cause is its analyzer ({chosen}): these queries share no word with any "
        f"chunk as it cuts them; try {other}"
    )


def unlabelled_findings(result: EvaluationResult) -> list[str]:
    """Return a line on each retriever with many empty results, for an evaluation without labels."""
    n_queries, findings = result.queries.num_rows, []
    for name in chosen_analyzers(result):
        keys = result.run_keys(name)
        if keys:
            answered = pc.count_distinct(result.table(keys[max(keys)]).column("query_id")).as_py()
            n_empty = n_queries - answered - len(result.failures(keys[max(keys)]))
            cause = likely_cause(result, name, n_empty, n_queries)
            findings += [f"{name}: nothing retrieved for {n_empty} queries{cause}"] if cause else []
    return findings
