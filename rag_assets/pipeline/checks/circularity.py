"""Check of verdicts: that the judge's model had no part in what it judges."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator

import pyarrow as pa

from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.stage import generator_of
from rag_assets.chunking.index_texts_stage import IndexTexts, texts_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.circularity import Use, circles
from rag_assets.judges.llm import LlmJudge
from rag_assets.labels.generation.question_files import TAG
from rag_assets.pipeline.checks.check import Check, Found, Reads
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.prompted import PromptedQuerySet
from rag_assets.retrieval.reranking.stage import RERANKED_RUNS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey


def circular_uses(experiment: Experiment, key: ArtifactKey, queries: pa.Table) -> list[str]:
    """Return a sentence for each way in which a judge's model made what it judges.

    Args:
        experiment: the experiment.
        key: of verdicts.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    judge = experiment.judges[key["judge"]]
    model = _model_of(experiment, judge.llm) if isinstance(judge, LlmJudge) else None
    if model is None:
        return []
    return list(circles(key["judge"], model, _uses(experiment, key, queries)))


def _uses(experiment: Experiment, key: ArtifactKey, queries: pa.Table) -> Iterator[Use]:
    """Yield what models do upstream, the nearest first; cells of one retriever once."""
    known: set[tuple[str, str]] = set()
    for path in _paths(experiment, key):
        for model, work in _works(experiment, path[0], queries):
            if (model, work) not in known:
                known.add((model, work))
                yield Use(model, work, tuple(map(str, path)))


def _paths(experiment: Experiment, key: ArtifactKey) -> Iterator[tuple[ArtifactKey, ...]]:
    """Yield the shortest path from each partition upstream down to ``key``."""
    waiting: deque[tuple[ArtifactKey, ...]] = deque([(key,)])
    known = {key}
    while waiting:
        path = waiting.popleft()
        yield path
        for item in STAGES[path[0].asset].inputs(experiment, path[0]):
            if item.key not in known:
                known.add(item.key)
                waiting.append((item.key, *path))


def _works(
    experiment: Experiment, key: ArtifactKey, queries: pa.Table
) -> Iterator[tuple[str, str]]:
    """Yield (model, what it does) of one partition."""
    model: str | None
    if key.asset == "answers":
        generator = generator_of(experiment, key)
        if isinstance(generator, LlmGenerator) and (model := _model_of(experiment, generator.llm)):
            yield model, f"writes the answers of {_answerer(experiment, key)}"
    elif key.asset == "query_set_answers":
        config = experiment.query_sets[key["query_set"]]
        if isinstance(config, PromptedQuerySet) and (model := _model_of(experiment, config.llm)):
            yield model, f"writes the queries of {key['query_set']}"
    elif key.asset == IndexTexts.name:
        yield from _writers_of_texts(experiment, key)
    elif key.asset in RERANKED_RUNS:
        model = getattr(experiment.retrievers[key["retriever"]], "model", None)
        if isinstance(model, str):
            yield model, f"reranks for {key['retriever']}"
    elif key == QUERIES_KEY:
        for model, n in _authors(queries).items():
            yield model, f"wrote {n} of the {len(queries)} questions"


def _writers_of_texts(experiment: Experiment, key: ArtifactKey) -> Iterator[tuple[str, str]]:
    for option in texts_of(experiment, key):
        model = _model_of(experiment, option.llm) if option.asks else None
        if model:
            yield model, f"writes the {option.kind} by which {key['chunking']} is found"


def _answerer(experiment: Experiment, key: ArtifactKey) -> str:
    return experiment.answer_cells[key["answerer"]].name


def _model_of(experiment: Experiment, name: str | None) -> str | None:
    llm = experiment.language_model(name)
    return None if llm is None else dict(llm.identity()).get("model")


def _authors(queries: pa.Table) -> Counter[str]:
    """Return model -> questions, of those that ``generate`` made: its name stands in ``source``."""
    found: Counter[str] = Counter()
    for tags, metadata in zip(*(queries[c].to_pylist() for c in ("tags", "metadata")), strict=True):
        source = json.loads(metadata or "{}").get("source") if TAG in (tags or ()) else None
        if isinstance(source, str) and source.strip():
            found[source.split()[0]] += 1  # before the name of the prompt
    return found


def _independent(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    experiment = reads.pipeline.experiment
    if not isinstance(experiment.judges[key["judge"]], LlmJudge):
        return None  # there is no model, or nobody knows which
    return Found(circular_uses(experiment, key, reads.queries))


INDEPENDENT = (
    Check(
        "judge_is_independent",
        "The judge's model did not rerank, rewrite, answer, or write questions.",
        _independent,
    ),
)
