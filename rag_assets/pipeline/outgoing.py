"""What an evaluation asks of models and servers, at most: requests, passages, tokens, money.

All is an upper bound from what is stored now, but for requests that are sent again because a server
failed. Tokens are counted as UTF-8 bytes, of which no tokenizer makes more; a passage is as long as
the longest chunks. What caches hold is left out of the requests to language models only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.stage import generator_of
from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.chunking.index_texts_stage import index_texts_key, texts_of
from rag_assets.chunking.stage import chunks_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import llm_client, retriever_client
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.verdicts_stage import AnswerVerdicts, judge_of
from rag_assets.llm.budget import MESSAGE_TOKENS, MILLION, prompt_tokens_at_most
from rag_assets.llm.completions import Estimate
from rag_assets.pipeline.llm_needs import (
    answers_needed,
    index_text_needed,
    questions_needed,
    variants_needed,
    verdicts_needed,
)
from rag_assets.query_sets.prompted import PromptedQuerySet
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.base import ORIGINAL
from rag_assets.retrieval.dense.openai_embedding import OpenAIEmbedding
from rag_assets.retrieval.derived import ALL
from rag_assets.retrieval.reranking.listwise import Listwise, windows
from rag_assets.retrieval.reranking.stage import RERANKED_RUNS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class Outgoing:
    """What one client is asked, at most; None where that is not known yet.

    Attributes:
        client: where it stands in the YAML, such as ``llm`` or ``retrievers.jina``.
        host: that is asked.
        is_local: whether that is this machine.
        questions: queries that are sent, whole or in a prompt.
        requests: that are sent.
        passages: chunks that are sent; one that is sent twice counts twice.
        tokens: of requests and answers.
        cost: in the unit of the client's prices; None also without prices.
        max_calls: the limit of the client; None: it has none.
        max_cost: likewise.
    """

    client: str
    host: str
    is_local: bool = False
    questions: int | None = None
    requests: int | None = None
    passages: int | None = None
    tokens: int | None = None
    cost: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None


def outgoing(pipeline: Pipeline, key: ArtifactKey) -> list[Outgoing]:
    """Return what is asked to make one partition, a line a client, on this machine too.

    A reranker whose cells are cut from one ranking is asked once: see :func:`has_one_ranking`.
    """
    if key.asset == "index_texts":
        return list(_index_texts(pipeline, key))
    count = _OF_A_MODEL.get(key.asset, _of_a_retriever)
    line = count(pipeline, key)
    return [line] if line is not None else []


def summed(lines: Iterable[Outgoing]) -> tuple[Outgoing, ...]:
    """Return one line for each client."""
    sums: dict[str, Outgoing] = {}
    for line in lines:
        before = sums.get(line.client)
        sums[line.client] = line if before is None else _sum(before, line)
    return tuple(sums.values())


def has_one_ranking(experiment: Experiment, retriever: str) -> bool:
    """Return whether all cells of a retriever are cut from one ranking, whatever their cut-off."""
    config = experiment.retrievers[retriever]
    return getattr(config, "candidates", None) != "top_k" and all(
        has_one_ranking(experiment, name) for name in experiment.inputs(retriever)
    )


def _line(experiment: Experiment, name: str | None) -> Outgoing | None:
    """Return a language model with its limits, and nothing counted yet."""
    client, llm = llm_client(experiment, name), experiment.language_model(name)
    if client is None or llm is None:
        return None
    line = Outgoing(client.key, client.host, client.is_local)
    return replace(line, max_calls=llm.max_calls, max_cost=llm.max_cost)


def _with(line: Outgoing, needs: Estimate, *, questions: int, passages: int) -> Outgoing:
    tokens, cost = needs.tokens_at_most, needs.cost_at_most
    line = replace(line, requests=needs.calls, tokens=tokens, cost=cost)
    return replace(line, questions=questions, passages=passages)


def _index_texts(pipeline: Pipeline, key: ArtifactKey) -> Iterator[Outgoing]:
    for option in texts_of(pipeline.experiment, key):
        line = _line(pipeline.experiment, option.llm) if option.asks else None
        needs = index_text_needed(pipeline, key, option) if line is not None else None
        if line is not None and needs is not None:
            yield _with(line, needs, questions=0, passages=needs.calls)
        elif line is not None:
            yield replace(line, questions=0)


def _of_a_retriever(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    experiment = pipeline.experiment
    asks = key.asset in ("embedding_index", "embedding_queries", "external_rankings")
    asks = asks or key.asset in RERANKED_RUNS
    client = retriever_client(experiment, key["retriever"]) if asks else None
    if client is None:
        return None
    retriever = experiment.retrievers[key["retriever"]]
    limits = {name: getattr(retriever, name, None) for name in ("max_calls", "max_cost")}
    empty = Outgoing(client.key, client.host, client.is_local, **limits)
    match key.asset:
        case "embedding_index":
            texts = _indexed(pipeline, experiment.chunking_of(key["retriever"]))
            return _embedded(empty, retriever, texts, passages=True)
        case "embedding_queries":
            name = experiment.query_set_of(key["retriever"])
            variants = pipeline.current(QUERIES_KEY if name == ORIGINAL else query_set_key(name))
            own = variants.table()["text"].to_pylist() if variants is not None else None
            return _embedded(empty, retriever, own, passages=False)
        case "external_rankings":
            return _searched(pipeline, empty, retriever)
        case _:
            return _reranked(pipeline, empty, key)


def _variants(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    config = pipeline.experiment.query_sets[key["query_set"]]
    if not isinstance(config, PromptedQuerySet):
        return None
    line, needs = _line(pipeline.experiment, config.llm), variants_needed(pipeline, key)
    queries = pipeline.current(QUERIES_KEY)
    if line is None or queries is None or needs is None:
        return line and replace(line, passages=0)
    return _with(line, needs, passages=0, questions=min(needs.calls, queries.manifest.rows))


def _questions(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    options = pipeline.experiment.questions
    line = _line(pipeline.experiment, options.llm if options is not None else None)
    needs = questions_needed(pipeline, key)
    if line is None or needs is None:
        return line and replace(line, questions=0)
    return _with(line, needs, questions=0, passages=needs.calls)


def _answers(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    generator, queries = generator_of(pipeline.experiment, key), pipeline.current(QUERIES_KEY)
    if not isinstance(generator, LlmGenerator):
        return None
    line = _line(pipeline.experiment, generator.llm)
    if line is None or queries is None:
        return line
    needs, n = answers_needed(pipeline, key), queries.manifest.rows
    if needs is None:
        top_k = pipeline.experiment.answer_cells[key["answerer"]].top_k
        passages = n * top_k if top_k is not None else None
        return replace(line, questions=n, requests=n, passages=passages)
    contexts = pipeline.current(answer_contexts_key(key["answerer"]))
    passages = contexts.manifest.rows if contexts is not None and needs.calls else 0
    return _with(line, needs, questions=min(needs.calls, n), passages=passages)


def _verdicts(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    experiment, judge = pipeline.experiment, judge_of(pipeline.experiment, key)
    queries = pipeline.current(QUERIES_KEY)
    line = _line(experiment, judge.llm) if isinstance(judge, LlmJudge) else None
    if line is None or queries is None:
        return line
    n, of_answers = queries.manifest.rows, key.asset == AnswerVerdicts.name
    needs = verdicts_needed(pipeline, key)
    if needs is not None:
        passages = 0 if of_answers else needs.calls
        return _with(line, needs, questions=min(needs.calls, n), passages=passages)
    judged = n * len(experiment.answer_cells)
    if not of_answers:
        judged = n * sum(_judged(pipeline, name, judge.depth) for name in experiment.retrievers)
    return replace(line, questions=n, requests=2 * judged, passages=0 if of_answers else 2 * judged)


def _judged(pipeline: Pipeline, retriever: str, depth: int) -> int:
    """Return how many passages of a query a judge is shown at most, from one retriever."""
    depths = [min(depth, k) for k in pipeline.experiment.judged_cutoffs]
    is_one = has_one_ranking(pipeline.experiment, retriever)
    return _bounded(pipeline, retriever, max(depths) if is_one else sum(depths))


def _bounded(pipeline: Pipeline, retriever: str, depth: int) -> int:
    """Return a depth, at most the number of chunks that a retriever can return where it is known.

    What a search with units of its own returns is known when it was asked.
    """
    experiment = pipeline.experiment
    names = () if experiment.located_of(retriever) else experiment.chunkings_of(retriever)
    cut = [pipeline.current(chunks_key(name)) for name in names]
    n_chunks = sum(one.manifest.rows for one in cut if one is not None)
    return min(depth, n_chunks) if cut and None not in cut else depth


def _embedded(
    line: Outgoing, retriever: object, texts: Sequence[str] | None, *, passages: bool
) -> Outgoing | None:
    line = replace(line, questions=0) if passages else replace(line, passages=0)
    if not isinstance(retriever, OpenAIEmbedding):
        return None if line.is_local else line  # only the type knows its requests
    if texts is None:
        return line
    prompt = retriever.document_prompt if passages else retriever.query_prompt
    n = len(texts)
    tokens = sum(len((prompt + text).encode()) for text in texts)
    cost = tokens * retriever.price / MILLION if retriever.price is not None else None
    counted = replace(line, passages=n) if passages else replace(line, questions=n)
    requests = -(-n // retriever.batch_size)
    return replace(counted, requests=requests, tokens=tokens, cost=cost)


def _searched(pipeline: Pipeline, line: Outgoing, retriever: object) -> Outgoing:
    """Return what a search is asked: each query, and a sample of them once more."""
    queries = pipeline.current(QUERIES_KEY)
    line = replace(line, passages=0)
    if queries is None:
        return line
    n, batch = queries.manifest.rows, getattr(retriever, "batch_size", 1)
    again = min(n, pipeline.experiment.config.measurements.latency_sample)
    return replace(line, questions=n, requests=-(-n // batch) + again)


def _reranked(pipeline: Pipeline, line: Outgoing, key: ArtifactKey) -> Outgoing:
    experiment, name = pipeline.experiment, key["retriever"]
    retriever = experiment.retrievers[name]
    queries = pipeline.current(QUERIES_KEY)
    wish = getattr(retriever, "candidates", None)
    if queries is None or wish in (None, ALL):
        return line
    depth = _bounded(pipeline, name, int(key["top_k"] if wish == "top_k" else wish))
    n = queries.manifest.rows
    texts = queries.table()["text"].to_pylist()
    asked = sum(len(text.encode()) for text in texts)
    # What a search with chunks of its own returns is known when it was asked.
    is_known = not experiment.located_of(name)
    chunks = _chunks(pipeline, experiment.chunkings_of(name)) if is_known else None
    sizes = sorted((len(text.encode()) for text in chunks or ()), reverse=True)
    if isinstance(retriever, Listwise):
        moves = [end - start for start, end in windows(depth, retriever.window, retriever.step)]
        shown = sum(moves)
        line = replace(line, questions=n, requests=n * len(moves), passages=n * shown)
        if chunks is None:
            return line
        around = prompt_tokens_at_most(retriever.empty_request())
        passages = sum(sum(sizes[:move]) + move * MESSAGE_TOKENS for move in moves)
        prompts = n * (passages + len(moves) * around) + asked * len(moves)
        answers = n * len(moves) * retriever.max_tokens
        limits = retriever.limits()
        cost = limits.cost(prompts, answers) if limits.priced else None
        return replace(line, tokens=prompts + answers, cost=cost)
    batch = depth if getattr(retriever, "listwise", False) else getattr(retriever, "batch_size", 1)
    batches = -(-depth // batch)
    line = replace(line, questions=n, requests=n * batches, passages=n * depth)
    if chunks is None:
        return line
    return replace(line, tokens=n * sum(sizes[:depth]) + asked * batches)


def _indexed(pipeline: Pipeline, chunking: str) -> list[str] | None:
    """Return the texts of an index of a chunking; None: they are to be made first."""
    if pipeline.experiment.chunkings[chunking].index_texts is None:
        return _chunks(pipeline, [chunking])
    artifact = pipeline.current(index_texts_key(chunking))
    return artifact.table()["text"].to_pylist() if artifact is not None else None


def _chunks(pipeline: Pipeline, chunkings: Iterable[str]) -> list[str] | None:
    """Return the texts of all chunks as they are indexed; None: they are to be cut first.

    Also where a run holds other texts than chunks, the parents of small ones.
    """
    found: list[str] = []
    for name in chunkings:
        artifact = pipeline.current(chunks_key(name))
        if artifact is None or pipeline.experiment.chunkings[name].has_parents:
            return None
        found += indexed_texts(artifact.table(), headings=True)
    return found


def _sum(one: Outgoing, other: Outgoing) -> Outgoing:
    def added(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a + b

    return replace(
        one,
        questions=added(one.questions, other.questions),
        requests=added(one.requests, other.requests),
        passages=added(one.passages, other.passages),
        tokens=added(one.tokens, other.tokens),
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
    )


_OF_A_MODEL: Mapping[str, Callable[[Pipeline, ArtifactKey], Outgoing | None]] = {
    "query_set_answers": _variants,
    "generated_questions": _questions,
    "answers": _answers,
    "relevance_verdicts": _verdicts,
    "answer_verdicts": _verdicts,
}

LLM_ASSETS = frozenset({*_OF_A_MODEL, "index_texts"})
"""Assets that language models write."""
