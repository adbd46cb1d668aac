"""What an evaluation would send to other machines, at most: hosts, requests, passages, money.

All is an upper bound from what is stored now. Tokens are counted as UTF-8 bytes, of which no
tokenizer makes more; a passage is as long as the longest chunks. What caches hold is left out of
the requests to language models only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.stage import generator_of
from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.chunking.index_texts_stage import IndexTexts, index_texts_key, texts_of
from rag_assets.chunking.stage import chunks_key
from rag_assets.experiment.hosts import Client, llm_client, retriever_client
from rag_assets.judges.llm import LlmJudge
from rag_assets.judges.verdicts_stage import AnswerVerdicts, RelevanceVerdicts, judge_of
from rag_assets.llm.budget import MESSAGE_TOKENS, MILLION, prompt_tokens_at_most
from rag_assets.pipeline.llm_needs import (
    answers_needed,
    index_text_needed,
    questions_needed,
    variants_needed,
    verdicts_needed,
)
from rag_assets.query_sets.prompted import PromptedQuerySet
from rag_assets.query_sets.stage import query_set_key
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
    """What one client sends to one host, at most; None where that is not known yet.

    Attributes:
        client: where it stands in the YAML, such as ``llm`` or ``retrievers.jina``.
        host: that is asked.
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
    questions: int | None = None
    requests: int | None = None
    passages: int | None = None
    tokens: int | None = None
    cost: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None


def outgoing(pipeline: Pipeline, computed: Iterable[ArtifactKey]) -> tuple[Outgoing, ...]:
    """Return what is sent to make these partitions, one line a client; nothing for this machine.

    Args:
        pipeline: the experiment and its store.
        computed: partitions that are computed, or may be.
    """
    lines: dict[str, Outgoing] = {}
    ranked: set[str] = set()
    for key in computed:
        if key.asset in RERANKED_RUNS:
            if key["retriever"] in ranked:
                continue  # its cells are cut from one ranking
            ranked.add(key["retriever"])
        for one in _of_partition(pipeline, key):
            before = lines.get(one.client)
            lines[one.client] = one if before is None else _sum(before, one)
    return tuple(lines.values())


def _of_partition(pipeline: Pipeline, key: ArtifactKey) -> Iterable[Outgoing]:
    if key.asset == IndexTexts.name:
        return _index_texts(pipeline, key)
    one = _by_one_client(pipeline, key)
    return [one] if one is not None else []


def _index_texts(pipeline: Pipeline, key: ArtifactKey) -> Iterator[Outgoing]:
    experiment = pipeline.experiment
    for option in texts_of(experiment, key):
        client = llm_client(experiment, option.llm) if option.asks else None
        llm = experiment.language_model(option.llm)
        if client is None or llm is None:
            continue
        line = Outgoing(client.key, client.host, 0, max_calls=llm.max_calls, max_cost=llm.max_cost)
        needs = index_text_needed(pipeline, key, option)
        if needs is not None:
            tokens, cost = needs.tokens_at_most, needs.cost_at_most
            line = replace(line, requests=needs.calls, passages=needs.calls)
            line = replace(line, tokens=tokens, cost=cost)
        yield line


def _by_one_client(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    experiment = pipeline.experiment
    if key.asset == "query_set_answers":
        config = experiment.query_sets[key["query_set"]]
        name = config.llm if isinstance(config, PromptedQuerySet) else None
        client = llm_client(experiment, name)
        return _variants(pipeline, client, key) if client else None
    if key.asset == "generated_questions":
        return _questions(pipeline, key)
    if key.asset == "answers":
        return _answers(pipeline, key)
    if key.asset in (RelevanceVerdicts.name, AnswerVerdicts.name):
        return _verdicts(pipeline, key)
    if key.asset not in (
        "embedding_index",
        "embedding_queries",
        *RERANKED_RUNS,
        "external_rankings",
    ):
        return None
    client = retriever_client(experiment, key["retriever"])
    if client is None:
        return None
    retriever = experiment.retrievers[key["retriever"]]
    limits = {name: getattr(retriever, name, None) for name in ("max_calls", "max_cost")}
    empty = Outgoing(client.key, client.host, **limits)
    match key.asset:
        case "embedding_index":
            texts = _indexed(pipeline, experiment.chunking_of(key["retriever"]))
            return _embedded(empty, retriever, texts, passages=True)
        case "embedding_queries":
            variants = pipeline.current(query_set_key(experiment.query_set_of(key["retriever"])))
            own = variants.table()["text"].to_pylist() if variants is not None else None
            return _embedded(empty, retriever, own, passages=False)
        case "external_rankings":
            return _searched(pipeline, empty, retriever)
        case _:
            return _reranked(pipeline, empty, key["retriever"])


def _variants(pipeline: Pipeline, client: Client, key: ArtifactKey) -> Outgoing:
    config = pipeline.experiment.query_sets[key["query_set"]]
    queries = pipeline.current(QUERIES_KEY)
    llm = pipeline.experiment.language_model(getattr(config, "llm", None))
    line = Outgoing(
        client.key,
        client.host,
        passages=0,
        max_calls=llm.max_calls if llm else None,
        max_cost=llm.max_cost if llm else None,
    )
    needs = variants_needed(pipeline, key)
    if queries is None or needs is None:
        return line
    return replace(
        line,
        questions=min(needs.calls, queries.manifest.rows),
        requests=needs.calls,
        tokens=needs.tokens_at_most,
        cost=needs.cost_at_most,
    )


def _questions(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    options = pipeline.experiment.questions
    name = options.llm if options is not None else None
    client, llm = llm_client(pipeline.experiment, name), pipeline.experiment.language_model(name)
    if client is None or llm is None:
        return None
    line = Outgoing(
        client.key, client.host, questions=0, max_calls=llm.max_calls, max_cost=llm.max_cost
    )
    needs = questions_needed(pipeline, key)
    if needs is None:
        return line
    calls, tokens, cost = needs.calls, needs.tokens_at_most, needs.cost_at_most
    return replace(line, requests=calls, passages=calls, tokens=tokens, cost=cost)


def _answers(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    experiment = pipeline.experiment
    generator = generator_of(experiment, key)
    if not isinstance(generator, LlmGenerator):
        return None
    client, llm = llm_client(experiment, generator.llm), experiment.language_model(generator.llm)
    if client is None or llm is None:
        return None
    line = Outgoing(client.key, client.host, max_calls=llm.max_calls, max_cost=llm.max_cost)
    needs, queries = answers_needed(pipeline, key), pipeline.current(QUERIES_KEY)
    if queries is None:
        return line
    n, top_k = queries.manifest.rows, experiment.answer_cells[key["answerer"]].top_k
    if needs is None:
        passages = n * top_k if top_k is not None else None
        return replace(line, questions=n, requests=n, passages=passages)
    contexts = pipeline.current(answer_contexts_key(key["answerer"]))
    return replace(
        line,
        questions=min(needs.calls, n),
        requests=needs.calls,
        passages=(contexts.manifest.rows if contexts is not None else 0) if needs.calls else 0,
        tokens=needs.tokens_at_most,
        cost=needs.cost_at_most,
    )


def _verdicts(pipeline: Pipeline, key: ArtifactKey) -> Outgoing | None:
    experiment, judge = pipeline.experiment, judge_of(pipeline.experiment, key)
    if not isinstance(judge, LlmJudge):
        return None
    client, llm = llm_client(experiment, judge.llm), experiment.language_model(judge.llm)
    if client is None or llm is None:
        return None
    line = Outgoing(client.key, client.host, max_calls=llm.max_calls, max_cost=llm.max_cost)
    needs, queries = verdicts_needed(pipeline, key, at_most=True), pipeline.current(QUERIES_KEY)
    if queries is None:
        return line
    n, of_answers = queries.manifest.rows, key.asset == AnswerVerdicts.name
    if needs is None:
        judged = len(experiment.retrievers) * judge.depth
        judged = n * (len(experiment.answer_cells) if of_answers else judged)
        passages = 0 if of_answers else 2 * judged
        return replace(line, questions=n, requests=2 * judged, passages=passages)
    return replace(
        line,
        questions=min(needs.calls, n),
        requests=needs.calls,
        passages=0 if of_answers else needs.calls,
        tokens=needs.tokens_at_most,
        cost=needs.cost_at_most,
    )


def _embedded(
    line: Outgoing, retriever: object, texts: Sequence[str] | None, *, passages: bool
) -> Outgoing:
    line = replace(line, questions=0) if passages else replace(line, passages=0)
    if texts is None or not isinstance(retriever, OpenAIEmbedding):
        return line  # a type from outside knows its requests alone
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
    again = min(n, pipeline.experiment.measurements.latency_sample)
    return replace(line, questions=n, requests=-(-n // batch) + again)


def _reranked(pipeline: Pipeline, line: Outgoing, name: str) -> Outgoing:
    experiment = pipeline.experiment
    retriever = experiment.retrievers[name]
    queries = pipeline.current(QUERIES_KEY)
    wish = getattr(retriever, "candidates", None)
    if queries is None or wish in (None, ALL):
        return line
    depth = max(experiment.top_k) if wish == "top_k" else int(wish)
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
