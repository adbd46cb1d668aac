"""Where a model had a part in what it judges, or in the questions that it is asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from rag_assets.answers.generators import LlmGenerator
from rag_assets.answers.stage import generator_of
from rag_assets.chunking.stage import IndexTexts, texts_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.llm import LlmJudge, Use, circles, model_name
from rag_assets.labels.generation.question_tables import question_authors
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.retrieval.reranking.stage import RERANKED_RUNS
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import QUERIES
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


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


def question_circles(experiment: Experiment) -> list[str]:
    """Return a sentence for each way in which a retriever uses the model that wrote the questions.

    Such a retriever knows the words of its own questions: its means may be too high.
    """
    options = experiment.questions
    author = _model_of(experiment, options.llm) if options is not None else None
    if author is None:
        return []
    lines: dict[str, None] = {}
    for name in experiment.retrievers:
        run = run_key(experiment, name, max(experiment.top_k))
        for use in _uses(experiment, run, QUERIES.empty()):
            if model_name(use.model) == model_name(author):
                alias = "" if use.model == author else f" (as {use.model})"
                lines[f"{author} writes the questions, and{alias} {use.work}"] = None
    return [f"{line}: what uses it may look better than it is" for line in lines]


def circle_warnings(experiment: Experiment) -> list[str]:
    """Return what the YAML tells of judges and questions: all that the two functions above say.

    Who wrote the questions, where these are not generated, is known when they were read.
    """
    stages = ("relevance_verdicts", "answer_verdicts")
    keys = (key for stage in stages for key in STAGES[stage].keys(experiment))
    lines = (line for key in keys for line in circular_uses(experiment, key, QUERIES.empty()))
    return [*question_circles(experiment), *dict.fromkeys(lines)]


def _uses(experiment: Experiment, key: ArtifactKey, queries: pa.Table) -> Iterator[Use]:
    """Yield what models do upstream, the nearest first; cells of one retriever once."""
    done: set[tuple[str, str]] = set()
    waiting: deque[tuple[ArtifactKey, ...]] = deque([(key,)])
    reached = {key}
    while waiting:
        path = waiting.popleft()
        for model, work in _works(experiment, path[0], queries):
            if model is not None and (model, work) not in done:
                done.add((model, work))
                yield Use(model, work, tuple(map(str, path)))
        for item in STAGES[path[0].asset].inputs(experiment, path[0]):
            if item.key not in reached:
                reached.add(item.key)
                waiting.append((item.key, *path))


def _works(
    experiment: Experiment, key: ArtifactKey, queries: pa.Table
) -> Iterator[tuple[str | None, str]]:
    """Yield (model, what it does) of one partition."""
    if key.asset == "answers":
        generator = generator_of(experiment, key)
        if isinstance(generator, LlmGenerator):
            name = experiment.answer_cells[key["answerer"]].name
            yield _model_of(experiment, generator.llm), f"writes the answers of {name}"
    elif key.asset == "query_set_answers":
        config = experiment.query_sets[key["query_set"]]
        if isinstance(config, PromptedQuerySet):
            yield _model_of(experiment, config.llm), f"writes the queries of {key['query_set']}"
    elif key.asset == IndexTexts.name:
        for option in texts_of(experiment, key):
            work = f"writes the {option.kind} by which {key['chunking']} is found"
            yield _model_of(experiment, option.llm) if option.asks else None, work
    elif key.asset in RERANKED_RUNS:
        model = getattr(experiment.retrievers[key["retriever"]], "model", None)
        yield model if isinstance(model, str) else None, f"reranks for {key['retriever']}"
    elif key == QUERIES_KEY:
        for model, n in question_authors(queries).items():
            yield model, f"wrote {n} of the {len(queries)} questions"


def _model_of(experiment: Experiment, name: str | None) -> str | None:
    llm = experiment.language_model(name)
    return None if llm is None else dict(llm.identity()).get("model")
