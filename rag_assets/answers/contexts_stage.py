"""``passages``, ``passage_lists`` and ``answer_contexts``: what each question is answered from.

What a retriever hands over is put together with an order and a budget. The other contexts are for
comparison: ``gold`` is all units that hold evidence, so what is lost with it no retriever could
mend; ``random`` is as many units as a retriever returns, whatever they say. Order ``edges``
alternates between the two ends, the best unit first, the second last: models read the middle of a
long context least (Liu et al., "Lost in the Middle", TACL 12, 2024).

Dagster maps cells of retriever x top_k to partitions of one dimension only where that is one of the
two. So an answerer, whose partition is ``name@k``, reads ``passage_lists[retriever]``, which says
what the cells ``passages[retriever x top_k]`` of the retriever hold; its recipe names the one cell
that it is made of. Judges read them in the same way. One asset for both was tried: the runs of a
family have the retrievers of that family, which Dagster maps to no dimension with all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answerers import GOLD, NONE, RANDOM, AnswererOptions
from rag_assets.answers.cases import Contexts, Passage
from rag_assets.answers.cases import Unit as TextUnit
from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests, Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts_stage import (
    chunking_contexts,
    document_texts,
    retriever_contexts_key,
    returned_contexts,
    spans_of,
    token_counts,
)
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.evaluation.returned_texts import returned_texts
from rag_assets.evaluation.units import Span, context_column, text_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.models.model_names import tokenizer_versions
from rag_assets.package_versions import version
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import ANSWER_CONTEXTS, PASSAGE_LISTS, PASSAGES, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import seeded

Unit = dict[str, Any]
"""A row of a table of units: its id, its place, its tokens and the digest of its text."""


class Passages(Stage):
    """The units that a retriever passes on for each query, with position and tokens."""

    name = "passages"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = PASSAGES
    row = "One unit that a retriever passes on for one query: position and tokens of its text."
    group = "answers"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {"counts": ("query_id", "rank")}

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        cutoffs = experiment.passage_cutoffs
        # All retrievers, as Dagster maps a dimension only to an equal one.
        return [passages_key(name, k) for name in experiment.retrievers for k in cutoffs]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("run", run_key(experiment, key["retriever"], key["top_k"])),
            Input("contexts", retriever_contexts_key(key["retriever"])),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"judge": context.experiment.judge}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return tokenizer_versions(context.experiment.config.context.tokenizer)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        run = context.artifact(run_key(context.experiment, key["retriever"], key["top_k"]))
        contexts = returned_contexts(context, key["retriever"], [run.table()])
        texts = returned_texts(run.table(), contexts, context_column(context.experiment.judge))
        counts = token_counts(context, "passages", spans_of(texts))
        table = passages(run.table(), texts, counts)
        return TableProduct(table, failures=run.manifest.failures)


class PassageLists(Stage):
    """The amount of text that a retriever passes on at each cut-off, with its digest."""

    name = "passage_lists"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = PASSAGE_LISTS
    row = "One cut-off: how many units are passed on for all queries, and their digest."
    group = "answers"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.passage_cutoffs else ()
        return [passage_lists_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        name = key["retriever"]
        return [Input(f"top_k_{k}", passages_key(name, k)) for k in experiment.passage_cutoffs]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        rows: list[dict[str, object]] = []
        for k in context.experiment.passage_cutoffs:
            cell = context.artifact(passages_key(key["retriever"], k)).manifest
            rows.append({"top_k": k, "n_passages": cell.rows, "digest": cell.digests["all"]})
        return TableProduct(PASSAGE_LISTS.from_rows(rows))


class AnswerContexts(Stage):
    """The context that each question is answered from."""

    name = "answer_contexts"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = ANSWER_CONTEXTS
    row = "One unit of the context that one question is answered from, at its place."
    group = "answers"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "texts": ("query_id", "position", "text_digest")
    }

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        cells = experiment.answer_cells
        return [
            answer_contexts_key(key)
            for key, cell in cells.items()
            if experiment.answerers[cell.name].has_context
        ]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        options, _ = answerer_of(experiment, key)
        # An edge of the graph exists for all partitions or for none.
        gold = any(options.context == GOLD for options in experiment.answerers.values())
        is_gold, labels = options.context == GOLD, list[Input]()
        if gold:
            labels.append(Input("qrels", QRELS_KEY, is_read=is_gold))
            labels.append(Input("documents", DOCUMENTS_KEY, "text", is_read=is_gold))
        if is_gold:
            return [*labels, Input("chunks", chunks_key(options.chunking or ""))]
        if options.retriever is None:
            return labels
        lists = Input("passages", passage_lists_key(options.retriever))
        drawn = Input("units", retriever_contexts_key(options.retriever))
        return [*labels, lists, *([drawn] if options.context == RANDOM else [])]

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        """Yield the digest of the one cell that is read in place of the list of all."""
        options, top_k = answerer_of(context.experiment, key)
        for role, digest in super().input_digests(context, key):
            if role != "passages" or options.retriever is None:
                yield role, digest
                continue
            cell = context.current(passages_key(options.retriever, top_k))
            part = "counts" if options.context == RANDOM else "all"
            yield role, cell.manifest.digests[part] if cell and digest else None
            if cell is None:
                yield "", None  # nobody can say that two cells are equal before they are there

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        options, _ = answerer_of(context.experiment, key)
        budget = {} if options.context == NONE else {"budget": options.budget}
        seed = {"seed": options.seed} if options.context == RANDOM else {}
        order = {"order": options.order} if options.context is None else {}
        return {"context": options.context or "retriever", **order, **seed, **budget}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        options, _ = answerer_of(context.experiment, key)
        package = {GOLD: "duckdb", RANDOM: "numpy"}.get(options.context or "")
        if package is None:
            return {}
        counted_by = tokenizer_versions(context.experiment.config.context.tokenizer)
        return {package: version(package), **counted_by}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        options, top_k = answerer_of(context.experiment, key)
        candidates, failures = _candidates(context, options, top_k)
        check_budget(context.experiment, key, candidates)
        table = answer_contexts(candidates, options.order, options.budget)
        n, n_candidates = len(table["query_id"].unique()), sum(map(len, candidates.values()))
        tokens = round((pc.sum(table["n_tokens"]).as_py() or 0) / max(n, 1), 1)
        n_dropped = n_candidates - table.num_rows
        facts = {"n_questions": n, "tokens_a_question": tokens, "n_dropped": n_dropped}
        notes = [f"the budget leaves out {n_dropped} of {n_candidates} units"] if n_dropped else []
        return TableProduct(table, {**facts, "notes": notes}, failures)


def _candidates(
    context: StageContext, options: AnswererOptions, top_k: int
) -> tuple[Mapping[str, Sequence[Unit]], Mapping[str, str]]:
    """Return question -> the units for its context, the best first, and the failed questions."""
    if options.context == NONE:
        return {}, {}
    if options.context == GOLD:
        chunks = context.artifact(chunks_key(options.chunking or "")).table()
        units = chunking_contexts(context, options.chunking or "")
        # By spans where there are any, whatever is judged: a whole document is evidence without.
        relevant = relevant_units(context.artifact(QRELS_KEY).table(), chunks, "evidence")
        gold = gold_units(relevant, units.drop_columns(["chunk_id"]))
        return _with_tokens(context, gold), {}
    retriever = options.retriever or ""
    cell = context.artifact(passages_key(retriever, top_k))
    candidates = units_by_query(cell.table())
    if options.context == RANDOM:
        units = context.artifact(retriever_contexts_key(retriever)).table()
        counts = {query_id: len(ranked) for query_id, ranked in candidates.items()}
        candidates = _with_tokens(context, random_units(counts, units, options.seed))
    return candidates, cell.manifest.failures


def _with_tokens(
    context: StageContext, candidates: Mapping[str, Sequence[Unit]]
) -> dict[str, list[Unit]]:
    """Return units with the number of tokens of their texts."""
    place = itemgetter("document_id", "start", "end")
    spans = {place(unit) for units in candidates.values() for unit in units}
    counts = token_counts(context, "units of contexts", spans)
    return {
        query_id: [{**unit, "n_tokens": counts[place(unit)]} for unit in units]
        for query_id, units in candidates.items()
    }


def check_budget(
    experiment: Experiment, key: ArtifactKey, candidates: Mapping[str, Sequence[Unit]]
) -> None:
    """Refuse a budget in which none of the units fits that may stand in a context.

    Raises:
        ConfigError: the budget is smaller than the smallest unit.
    """
    options, _ = answerer_of(experiment, key)
    sizes = (unit["n_tokens"] for units in candidates.values() for unit in units)
    smallest = min(sizes, default=0)
    if options.budget is not None and options.budget < smallest:
        location = ("answers", experiment.answer_cells[key["answerer"]].name, "budget")
        problem = f"no unit fits into {options.budget} tokens: the smallest has {smallest}"
        problem += f"; allowed: {smallest} or more"
        raise read_yaml(experiment.source).error(location, problem)


def answerer_of(experiment: Experiment, key: ArtifactKey) -> tuple[AnswererOptions, int]:
    """Return the options of an answerer's partition, and its cut-off, 0 where it has none."""
    cell = experiment.answer_cells[key["answerer"]]
    return experiment.answerers[cell.name], cell.top_k or 0


def context_input(experiment: Experiment, key: ArtifactKey) -> list[Input]:
    """Return the contexts that an answerer's partition reads; none where they are not known."""
    has_one = answerer_of(experiment, key)[0].has_context
    return [Input("contexts", answer_contexts_key(key["answerer"]))] if has_one else []


def contexts_with_texts(context: StageContext, key: ArtifactKey) -> Contexts | None:
    """Return the contexts of an answerer with the texts of their units; None: not known."""
    if not answerer_of(context.experiment, key)[0].has_context:
        return None
    documents = document_texts(context)
    table = context.artifact(answer_contexts_key(key["answerer"])).table()

    def with_text(unit: Unit) -> TextUnit:
        place = (unit["document_id"], unit["start"], unit["end"])
        return TextUnit(text_of(documents, place), Passage(*place), unit["n_tokens"])

    return {
        query_id: [with_text(unit) for unit in units]
        for query_id, units in units_by_query(table).items()
    }


def passages_key(retriever: str, top_k: int) -> ArtifactKey:
    """Return what a retriever hands over at a cut-off."""
    return ArtifactKey.of("passages", retriever=retriever, top_k=top_k)


def passage_lists_key(retriever: str) -> ArtifactKey:
    """Return the sizes and digests of all that a retriever hands over."""
    return ArtifactKey.of("passage_lists", retriever=retriever)


def answer_contexts_key(answerer: str) -> ArtifactKey:
    """Return the contexts of one answerer at its cut-off, such as ``plain@5``."""
    return ArtifactKey.of("answer_contexts", answerer=answerer)


def passages(run: pa.Table, texts: pa.Table, counts: Mapping[Span, int]) -> pa.Table:
    """Return what a run hands over, as text: table of ``schemas.PASSAGES`` in the run's order.

    ``texts`` are those of the run, see
    :func:`rag_assets.evaluation.returned_texts.returned_texts`; ``counts`` says how many tokens
    each has.
    """
    n_tokens = pa.array(map(counts.__getitem__, spans_of(texts)), pa.int64())
    columns = {"rank": run["rank"], "unit_id": texts["context_id"], "n_tokens": n_tokens}
    for name, values in columns.items():
        texts = texts.append_column(name, values)
    arrow = PASSAGES.arrow()
    return PASSAGES.check(texts.select(arrow.names).cast(arrow).combine_chunks())


def units_by_query(table: pa.Table) -> dict[str, list[Unit]]:
    """Return query id -> its rows, without the id, in the order of the table."""
    rows = table.to_pylist()
    return {
        query_id: [{name: v for name, v in row.items() if name != "query_id"} for row in of_query]
        for query_id, of_query in groupby(rows, key=lambda row: row["query_id"])
    }


def answer_contexts(
    candidates: Mapping[str, Sequence[Unit]], order: str, budget: int | None
) -> pa.Table:
    """Return contexts, ``schemas.ANSWER_CONTEXTS``, of units that come best first.

    The first unit that does not fit into the budget ends a context. A question without a unit has
    no row.
    """
    rows = [
        {"query_id": query_id, "position": position, **unit}
        for query_id in sorted(candidates)
        for position, unit in enumerate(ordered(within(candidates[query_id], budget), order), 1)
    ]
    return ANSWER_CONTEXTS.from_rows(rows)


def within(units: Sequence[Unit], budget: int | None) -> Sequence[Unit]:
    """Return the first units whose tokens are within a budget."""
    ends = list(accumulate(unit["n_tokens"] for unit in units))
    return units if budget is None else units[: bisect_right(ends, budget)]


def ordered(units: Sequence[Unit], order: str) -> Sequence[Unit]:
    """Return units, which come best first, as they stand in a context."""
    if order == "edges":
        return [*units[::2], *reversed(units[1::2])]
    return units[::-1] if order == "reversed" else units


def gold_units(relevant: pa.Table, units: pa.Table) -> dict[str, list[Unit]]:
    """Return the units that hold evidence of positive grade, by document and place."""
    by_id = {unit["unit_id"]: {"rank": None, **unit} for unit in units.to_pylist()}
    is_good = pc.and_(pc.greater(relevant["grade"], 0), pc.is_valid(relevant["unit_id"]))
    good = relevant.filter(is_good)
    gold: dict[str, dict[str, Unit]] = {}
    for query_id, unit_id in column_values(good, "query_id", "unit_id"):
        gold.setdefault(query_id, {})[unit_id] = by_id[unit_id]
    place = itemgetter("document_id", "start", "end", "unit_id")
    return {query_id: sorted(of_query.values(), key=place) for query_id, of_query in gold.items()}


def random_units(counts: Mapping[str, int], units: pa.Table, seed: int) -> dict[str, list[Unit]]:
    """Return units that are drawn without replacement, each question by itself.

    A draw depends on the seed, on the question's id and on the units, which are sorted by id;
    ``counts`` says how many are drawn for each query.
    """
    names = ["unit_id", *units.column_names[1:]]
    rows = [{"rank": None, **row} for row in units.rename_columns(names).to_pylist()]
    drawn = {}
    for query_id, count in counts.items():
        size = min(count, len(rows))
        numbers = seeded(seed, query_id).choice(len(rows), size=size, replace=False)
        drawn[query_id] = [rows[number] for number in numbers.tolist()]
    return drawn
