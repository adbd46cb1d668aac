"""``attributions[retriever]``: where each positive evidence was found, or at which stage lost.

``k`` is the cut-off of the primary metric. The first of these that holds is the place:

1. ``found``: a unit that satisfies the evidence is among the first k of the ranking.
2. ``not_in_corpus``: no unit satisfies it, and none of the documents that it names exists.
3. ``no_chunk``: no unit of the retriever satisfies it, though a document exists.
4. ``below_candidates``: units satisfy it, but a base retriever's ranking, as deep as it is stored,
   holds none of them; for a retriever that reads others: none of them has one among its candidates.
   Of a search with chunks of its own only those are known that it returned for some query: what no
   chunk of them satisfies is here, and never at 3.
5. ``lost_in_fusion``, ``lost_in_reranking``: an input has it among its first k, and this retriever
   moved it below k.
6. ``cut_at_k``: it is ranked, but deeper than k, or deeper than a fusion's ranking is stored.

So a place says what to work on: the corpus, the chunking, the retrievers or their depth, the fusion
or reranker, the cut-off. One unit that satisfies any alternative of an evidence is enough. The
share ``found`` of a query's evidences is recall@k.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests, DuckDBStage, TableProduct
from rag_assets.engine.stage_context import Need, StageContext
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import RunsStage, run_key
from rag_assets.schemas import ATTRIBUTIONS, RUNS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.sql_paths import scratch_connection

FOUND = "found"
PLACES = (
    FOUND,
    "cut_at_k",
    "lost_in_reranking",
    "lost_in_fusion",
    "below_candidates",
    "no_chunk",
    "not_in_corpus",
)
"""All places, the last stage first."""

LOST_IN = {"fused": "lost_in_fusion", "reranked": "lost_in_reranking"}
"""Family of retrievers that read others -> what losing an evidence is called there."""

_ATTRIBUTE = """
WITH units AS (
    SELECT query_id, evidence_id, unit_id FROM relevant_units WHERE grade > 0
), evidences AS (
    SELECT query_id, evidence_id, count(DISTINCT unit_id) AS n_units FROM units GROUP BY ALL
), own AS (
    SELECT query_id, evidence_id, min(rank) AS rank
    FROM units JOIN ranking USING (query_id, unit_id) GROUP BY ALL
), input_firsts AS (
    SELECT query_id, evidence_id, number, min(rank) AS rank
    FROM units JOIN inputs USING (query_id, unit_id) GROUP BY ALL
), read AS (
    SELECT query_id, evidence_id, list(rank ORDER BY number) AS input_ranks, min(rank) AS best
    FROM (SELECT * FROM evidences CROSS JOIN range($n_inputs) numbers(number))
    LEFT JOIN input_firsts USING (query_id, evidence_id, number) GROUP BY ALL
), existing AS (
    SELECT DISTINCT query_id, evidence_id
    FROM qrels SEMI JOIN documents USING (document_id) WHERE grade > 0
)
SELECT query_id, evidence_id,
       CASE WHEN own.rank <= $k THEN 'found'
            WHEN n_units = 0 AND existing.query_id IS NULL THEN 'not_in_corpus'
            WHEN n_units = 0 AND $all_units_known THEN 'no_chunk'
            WHEN $n_inputs = 0 AND own.rank IS NULL THEN 'below_candidates'
            WHEN $n_inputs > 0 AND best IS NULL THEN 'below_candidates'
            WHEN best <= $k THEN $lost_in
            ELSE 'cut_at_k' END AS lost_at,
       own.rank::INTEGER AS rank,
       n_units::INTEGER AS n_relevant_units,
       $names::VARCHAR[] AS inputs,
       coalesce(input_ranks, [])::INTEGER[] AS input_ranks
FROM evidences
LEFT JOIN own USING (query_id, evidence_id)
LEFT JOIN read USING (query_id, evidence_id)
LEFT JOIN existing USING (query_id, evidence_id)
ORDER BY query_id, evidence_id
"""


def attributions(
    ranking: pa.Table,
    relevant_units: pa.Table,
    qrels: pa.Table,
    documents: pa.Table,
    *,
    k: int,
    family: str,
    all_units_known: bool = True,
    inputs: Mapping[str, pa.Table],
) -> pa.Table:
    """Say of each positive evidence where the retriever found or lost it, by query and evidence.

    Args:
        ranking: as deep as it is stored.
        relevant_units: of the retriever.
        qrels: the judgments.
        documents: a table with the column ``document_id``: the corpus.
        k: the cut-off asked about, at least 1.
        family: of the retriever; one that reads others must be in :data:`LOST_IN`.
        all_units_known: whether the relevant units are of all units that it can find.
        inputs: name -> ranking of each retriever that this one reads, as deep as it reads it.
    """
    values = {
        "k": k,
        "lost_in": LOST_IN[family] if inputs else "",
        "names": list(inputs),
        "n_inputs": len(inputs),
        "all_units_known": all_units_known,
    }
    with scratch_connection() as connection:
        connection.register("ranking", ranking.select(["query_id", "rank", "unit_id"]))
        connection.register("inputs", _numbered(inputs))
        connection.register("relevant_units", relevant_units)
        connection.register("qrels", qrels)
        connection.register("documents", documents.select(["document_id"]))
        table = connection.sql(_ATTRIBUTE, params=values).to_arrow_table()
    return ATTRIBUTIONS.check(table.cast(ATTRIBUTIONS.arrow()).combine_chunks())


def _numbered(inputs: Mapping[str, pa.Table]) -> pa.Table:
    names = ["query_id", "rank", "unit_id"]
    parts = [RUNS.empty().select(names).append_column("number", pa.array([], pa.int64()))]
    for number, table in enumerate(inputs.values()):
        numbers = pa.array([number] * table.num_rows, pa.int64())
        parts.append(table.select(names).append_column("number", numbers))
    return pa.concat_tables(parts)


@dataclass(frozen=True)
class Places:
    """How the evidences of some queries are spread over the places, for one retriever.

    ``recall`` is the mean share found, recall@k; ``ceiling`` that of the evidences that any input
    has among its candidates: the highest recall of a fusion or reranking of them. None for a
    retriever that reads no other.
    """

    n_queries: int
    n_evidences: int
    counts: Mapping[str, int]
    recall: float
    ceiling: float | None

    def share(self, place: str) -> float:
        """Return the part of all evidences that is at ``place``."""
        return self.counts[place] / self.n_evidences


def places(table: pa.Table, query_ids: Collection[str] | None = None) -> Places | None:
    """Count the evidences of some queries (None: all) by place; None where no query has any."""
    rows = table.to_pylist()
    if query_ids is not None:
        chosen = set(query_ids)
        rows = [row for row in rows if row["query_id"] in chosen]
    if not rows:
        return None
    shares: dict[str, list[tuple[bool, bool]]] = {}
    for row in rows:
        in_pool = any(rank is not None for rank in row["input_ranks"])
        shares.setdefault(row["query_id"], []).append((row["lost_at"] == FOUND, in_pool))
    recall, ceiling = (
        mean([sum(each[part] for each in flags) / len(flags) for flags in shares.values()]) or 0.0
        for part in (0, 1)
    )
    counts = {place: sum(row["lost_at"] == place for row in rows) for place in PLACES}
    return Places(len(shares), len(rows), counts, recall, ceiling if rows[0]["inputs"] else None)


class Attributions(DuckDBStage):
    """The stage at which a retriever found or lost each piece of evidence.

    The ranking that is looked at is the one from which the largest cell is cut. A retriever with
    ``candidates: top_k`` has a ranking a cell: there it is that of the primary cut-off.
    """

    name = "attributions"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = ATTRIBUTIONS
    row = "One evidence of a query: the stage at which this retriever found or lost it."
    group = "metrics"

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        self._rankings = RankingsRead(rankers)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [attributions_key(experiment, name) for name in experiment.judged_retrievers]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        retrievers = (key["retriever"], *experiment.inputs(key["retriever"]))
        return [
            Input("relevant_units", relevant_units_key(key["retriever"])),
            Input("qrels", QRELS_KEY),
            Input("documents", DOCUMENTS_KEY, "ids"),
            *[
                Input(f"run_{number}_{place}", run_key(experiment, name, top_k))
                for number, name in enumerate(retrievers)
                for place, top_k in enumerate(cutoffs_read(experiment))
            ],
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the cut-off, and the names of the inputs: they are in the table."""
        experiment, retriever = context.experiment, key["retriever"]
        return {
            "k": int(key["top_k"]),
            "family": experiment.retrievers[retriever].family,
            "inputs": list(experiment.inputs(retriever)),
            **({"all_units_known": False} if experiment.located_of(retriever) else {}),
        }

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        """Yield the digests of labels and corpus, and of the rankings as deep as they are read."""
        missing = set()
        for item in self.inputs(context.experiment, key):
            artifact = context.current(item.key)
            if not item.role.startswith("run_"):
                yield item.role, artifact.manifest.digests[item.projection] if artifact else None
            elif artifact is None:
                missing.add(item.key["retriever"])
        read = self._rankings.digests(context, key["retriever"], int(key["top_k"]))
        for number, (name, digest) in enumerate(read):
            yield f"ranking_{number}", None if name in missing else digest

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        table = self._rankings.attributions(context, key["retriever"], int(key["top_k"]))
        return TableProduct(table)


class RankingsRead:
    """The rankings by which evidence is found or lost: a retriever's, and those of its inputs."""

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        self._rankers = {stage.family: stage for stage in rankers}

    def digests(self, context: StageContext, retriever: str, k: int) -> Digests:
        """Yield (retriever, digest) of each ranking; None: it is not there."""
        for need in _looked_at(context.experiment, retriever, k):
            yield need.retriever, self._digest(context, need)

    def attributions(self, context: StageContext, retriever: str, k: int) -> pa.Table:
        """Return where a retriever found or lost each evidence at a cut-off."""
        corpus = context.artifact(DOCUMENTS_KEY).file
        ranking, *inputs = _looked_at(context.experiment, retriever, k)
        return attributions(
            self._ranking(context, ranking),
            context.artifact(relevant_units_key(retriever)).table(),
            context.artifact(QRELS_KEY).table(),
            read_parquet(corpus, ["document_id"]),
            k=k,
            family=context.experiment.retrievers[retriever].family,
            all_units_known=not context.experiment.located_of(retriever),
            inputs={need.retriever: self._ranking(context, need) for need in inputs},
        )

    def _digest(self, context: StageContext, need: Need) -> str | None:
        """Return the digest of a ranking; a ranking that is a cell may be gone, the cell is not."""
        if need.depth == need.top_k:
            artifact = context.current(run_key(context.experiment, need.retriever, need.top_k))
            return artifact.manifest.digests["all"] if artifact else None
        return context.rankings.digest(self._ranker(context, need), need)

    def _ranking(self, context: StageContext, need: Need) -> pa.Table:
        if need.depth == need.top_k:
            return context.artifact(run_key(context.experiment, need.retriever, need.top_k)).table()
        return context.rankings.table(self._ranker(context, need), need).table

    def _ranker(self, context: StageContext, need: Need) -> RunsStage:
        return self._rankers[context.experiment.family(need.retriever)]


def _looked_at(experiment: Experiment, name: str, k: int) -> list[Need]:
    """Return the rankings that matter: its own, then its inputs'."""
    candidates = getattr(experiment.retrievers[name], "candidates", 0)
    if candidates == "top_k":
        return [Need(each, k, k) for each in (name, *experiment.inputs(name))]
    largest = max(experiment.top_k)
    itself = Need(name, largest, experiment.depth(name))
    return [itself, *[Need(each, largest, int(candidates)) for each in experiment.inputs(name)]]


def cutoffs_read(experiment: Experiment) -> tuple[int, ...]:
    """Return the cut-offs whose cells attributions read: the primary and the largest one."""
    return tuple(sorted({_primary_cutoff(experiment), max(experiment.top_k)}))


def attributions_key(experiment: Experiment, retriever: str) -> ArtifactKey:
    """Return the attributions of one retriever, at the cut-off of the primary metric."""
    top_k = _primary_cutoff(experiment)
    return ArtifactKey.of("attributions", retriever=retriever, top_k=top_k)


def _primary_cutoff(experiment: Experiment) -> int:
    return experiment.primary.cutoff or max(experiment.top_k)
