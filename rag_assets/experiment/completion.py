"""Rules between the blocks of an experiment, and what they leave out.

Every block is returned with its defaults filled in and its files absolute; what does not go
together raises a :class:`KeyProblem` at the key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rag_assets.answers.answerers import GOLD, NONE, AnswererOptions
from rag_assets.answers.generators import LlmGenerator
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.own_generators import OwnGenerator
from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.chunking.index_texts import IndexText, template_of
from rag_assets.evaluation.metric_names import (
    Metric,
    parse_metric,
    refuse_function,
    refuse_lower_is_better,
)
from rag_assets.experiment.config import (
    ChunkingConfig,
    ExperimentConfig,
    GeneratorConfig,
    JudgeConfig,
    QuerySetConfig,
    RetrieverConfig,
)
from rag_assets.experiment.retriever_rules import check_known, check_retrievers, naming
from rag_assets.input_files import missing_file
from rag_assets.judges.base import CORRECTNESS, RELEVANCE, Kind
from rag_assets.judges.registry import PLACES, LlmJudge
from rag_assets.labels.questions import QuestionOptions
from rag_assets.options import FileOptions, KeyProblem
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.retrieval.base import ORIGINAL, UNCHUNKED, BaseRetriever
from rag_assets.retrieval.external.base import (
    AnsweredRetriever,
    ExternalRetriever,
    ImportedRetriever,
    reads_its_own,
)
from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.sources.dataset import Dataset


def default_chunkings(dataset: Dataset) -> dict[str, ChunkingConfig]:
    """Return one chunking: none where the data is judged as it stands, else recursive 200/30."""
    if dataset.default_chunking == "none":
        return {"whole": CHUNKING_TYPES["none"](strategy="none")}
    return {"sections_200": CHUNKING_TYPES["recursive"](strategy="recursive")}


def default_retrievers() -> dict[str, RetrieverConfig]:
    """Return BM25, MiniLM, their reciprocal rank fusion, and a reranking of its first 20.

    Late interaction needs no weights but MiniLM's. It reads the fusion, because that holds what
    either of the others finds: a reranker cannot bring back what its input has missed.
    """
    blocks: dict[str, dict[str, Any]] = {
        "bm25": {"type": "bm25"},
        "minilm": {"type": "embedding"},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "minilm"]},
        "maxsim": {"type": "maxsim", "input": "hybrid", "candidates": 20},
    }
    return {name: OWN_TYPES[block["type"]](**block) for name, block in blocks.items()}


WithFiles = TypeVar("WithFiles", bound=FileOptions)
Keys = tuple[int | str, ...]


def _check_places(
    given: IndexText | QuestionOptions | PromptedQuerySet,
    places: Collection[str],
    location: Keys,
    **options: str,
) -> None:
    """Refuse an option that is given, and for which a prompt does not have the place."""
    for option, place in options.items():
        if option in given.model_fields_set and place not in places:
            template = given.files()["template"]
            problem = f"the prompt does not use it; write {{{place}}} in {template}"
            raise KeyProblem((*location, option), problem)


@dataclass(frozen=True)
class Blocks:
    """The blocks of an experiment, each completed when it is asked for.

    Attributes:
        config: what was read.
        dataset: opened.
        base: the folder that files are relative to.
    """

    config: ExperimentConfig
    dataset: Dataset
    base: Path

    @cached_property
    def given_chunkings(self) -> Mapping[str, ChunkingConfig]:
        """The chunkings as they were read, or the default."""
        return dict(self.config.chunking) or default_chunkings(self.dataset)

    @cached_property
    def retrievers(self) -> Mapping[str, RetrieverConfig]:
        """The retrievers with their chunking and, where all have them, their filters filled in."""
        given = self.config.retrievers or default_retrievers()
        retrievers = {name: self._retriever(name, options) for name, options in given.items()}
        check_retrievers(retrievers)
        base = {name: one for name, one in retrievers.items() if isinstance(one, BaseRetriever)}
        query_sets = [ORIGINAL, *self.config.query_sets]
        for name, options in base.items():
            location = ("retrievers", name, "query_set")
            check_known("query set", options.query_set, query_sets, *location)
        for name, one in retrievers.items():
            if isinstance(one, AnsweredRetriever):
                self._check_own_contexts(one, "retrievers", name, "generator")
        for name, options in base.items():
            texts = self.given_chunkings[str(options.chunking)].index_texts
            if texts is not None and not options.indexes_texts:
                problem = f"'{options.chunking}' has index_texts, which this retriever cannot index"
                raise KeyProblem(("retrievers", name, "chunking"), problem)
        return retrievers

    def _check_own_contexts(self, options: AnsweredRetriever, *location: str) -> None:
        generators = self.config.generators
        check_known("generator", options.generator, generators, *location)
        generator = generators[options.generator]
        if not isinstance(generator, OwnGenerator):
            problem = f"'{options.generator}' retrieves nothing; allowed are types python and http"
            raise KeyProblem(location, problem)
        if generator.revision is None:
            problem = "needs `revision`, since we cannot see what it searches: a text that you "
            problem += "change with it, or always"
            raise KeyProblem(("generators", options.generator), problem)

    def _retriever(self, name: str, options: RetrieverConfig) -> RetrieverConfig:
        if isinstance(options, BaseRetriever) and self.config.filters and options.filters is None:
            options = options.model_copy(update={"filters": True})
        if not isinstance(
            options, BaseRetriever | ImportedRetriever | ExternalRetriever | AnsweredRetriever
        ):
            return options
        chunking = options.chunking
        if isinstance(options, ExternalRetriever) and chunking is None:
            chunking = UNCHUNKED
        if chunking != UNCHUNKED or isinstance(options, BaseRetriever):
            chunking = self._chosen_chunking(chunking, "retrievers", name)
        elif options.expand is not None:
            problem = "neighbours are known only for chunkings of this experiment; leave it out"
            raise KeyProblem(("retrievers", name, "expand"), problem)
        return options.model_copy(update={"chunking": chunking})

    def _chosen_chunking(self, name: str | None, *location: int | str) -> str:
        """Return the chunking that a block at ``location`` names; without a name the only one."""
        chunkings = self.given_chunkings
        if name is None and len(chunkings) > 1:
            raise KeyProblem(location, f"needs `chunking`, one of {', '.join(chunkings)}")
        chosen = name or next(iter(chunkings))
        check_known("chunking", chosen, chunkings, *location, "chunking")
        return chosen

    def with_files(self, options: WithFiles, *location: int | str) -> WithFiles:
        """Make the files that a block names absolute, and check that they are there."""
        files = {option: self.base / file for option, file in options.files().items()}
        for option, file in files.items():
            if not file.is_file():
                raise KeyProblem((*location, option), missing_file(file))
        return options.with_files(files)

    def _check_model(
        self, name: str | None, *location: int | str, reads_list: bool = False
    ) -> None:
        """Check that there is a language model for a block, and that its answers can be read.

        Args:
            name: one of ``llms``; None: the experiment's ``llm``.
            location: of the block; the name is its key ``llm``.
            reads_list: whether an answer may be a list of texts.
        """
        llms = self.config.llms
        if name is not None:
            check_known("model", name, llms, *location, "llm")
        llm = self.config.llm if name is None else llms[name]
        if llm is None:
            lacks = f"name one of `llms`: `llm: {', '.join(llms)}`" if llms else "add the key `llm`"
            raise KeyProblem(location, f"needs a language model; {lacks}")
        if llm.sequences > 1 and not reads_list:
            problem = f"its model writes {llm.sequences} `sequences`; only a query set with "
            raise KeyProblem(location, f"{problem}`strategy: multi_query` can read more than one")

    def query_set(self, name: str, options: QuerySetConfig) -> QuerySetConfig:
        """Return a query set with absolute files, its model and prompt checked."""
        location = ("query_sets", name)
        completed = self.with_files(options, *location)
        if isinstance(options, PromptedQuerySet) and isinstance(completed, PromptedQuerySet):
            self._check_model(options.llm, *location, reads_list=options.reads_list)
            with naming(*location):
                places = completed.prompted().template.places
            _check_places(options, places, location, language="language")
        return completed

    def chunking(self, name: str, options: ChunkingConfig) -> ChunkingConfig:
        """Return a chunking whose ``index_texts`` have absolute files, models and prompts."""
        if options.index_texts is None:
            return options
        texts = []
        for number, option in enumerate(options.index_texts):
            location = ("chunking", name, "index_texts", number)
            texts.append(self.with_files(option, *location))
            if option.asks:
                self._check_model(option.llm, *location)
                places = template_of(texts[-1]).places
                _check_places(option, places, location, language="language", count="n")
        return options.model_copy(update={"index_texts": tuple(texts)})

    def questions(self, options: QuestionOptions) -> QuestionOptions:
        """Return the options of generated questions with their chunking and absolute files."""
        chunking = self._chosen_chunking(options.chunking, "questions")
        if self.config.dataset.judge == "chunk":
            problem = "the labels of generated `questions` are spans; allowed: evidence, document"
            raise KeyProblem(("dataset", "judge"), f"chunk: {problem}")
        if self.config.dataset.sample is not None:
            problem = "samples queries of the dataset; `questions` sets how many are generated"
            raise KeyProblem(("dataset", "sample"), problem)
        self._check_model(options.llm, "questions")
        completed = self.with_files(options, "questions")
        with naming("questions", "template"):
            places = completed.question_prompt().places
        _check_places(options, places, ("questions",), language="language")
        return completed.model_copy(update={"chunking": chunking})

    def check_judged_unit(self) -> None:
        """Refuse judgments of chunks where documents are cut."""
        for name, chunking in self.given_chunkings.items():
            if self.config.dataset.judge == "chunk" and not chunking.whole_documents:
                raise KeyProblem(
                    ("dataset", "judge"),
                    f"chunk: the judged ids are ids of whole documents, but chunking '{name}' "
                    f"cuts documents; use strategy none, or judge document or evidence",
                )

    def generator(self, name: str, options: GeneratorConfig) -> GeneratorConfig:
        """Return a generator with absolute files, its language model and prompt checked."""
        completed = self.with_files(options, "generators", name)
        if isinstance(completed, LlmGenerator):
            self._check_model(completed.llm, "generators", name)
            with naming("generators", name, "prompt"):
                completed.template()
        return completed

    def answerer(self, name: str, options: AnswererOptions, *, has_labels: bool) -> AnswererOptions:
        """Return an answerer with ``top_k`` and ``chunking`` filled in where it has such."""
        config, location = self.config, ("answers", name)
        if options.context == GOLD and not has_labels:
            problem = "gold is the evidence of a question, but the data has no labels"
            raise KeyProblem((*location, "context"), problem)
        check_known("generator", options.generator, config.generators, *location, "generator")
        generator = config.generators[options.generator]
        is_own = isinstance(generator, OwnGenerator)
        if options.retriever is not None:
            check_known("retriever", options.retriever, self.retrievers, *location, "retriever")
        elif options.context is None and generator.reads_context and not is_own:
            problem = (
                "needs a context: the key `retriever`, or `context`, one of gold, none, random"
            )
            raise KeyProblem(location, problem)
        reads_own = reads_its_own(options, self.retrievers)
        is_alone = reads_own or (options.retriever is None and options.context in (None, NONE))
        if isinstance(generator, OwnGenerator) and not is_alone and not generator.takes_contexts:
            problem = "its request has no place for '{contexts}'; add one, or give no context"
            raise KeyProblem(("generators", options.generator), problem)
        listed = sorted(set(config.top_k))
        for k in options.top_k or ():
            if k not in listed:
                allowed = ", ".join(map(str, listed))
                problem = f"{k} is not in the experiment's top_k; allowed: {allowed}"
                raise KeyProblem((*location, "top_k"), problem)
        filled: dict[str, object] = {}
        if options.retriever is not None:
            # What retrieves by itself reads all of its contexts, whatever the cut-off.
            cutoffs = listed[-1:] if reads_own else listed
            filled["top_k"] = tuple(sorted(set(options.top_k or cutoffs)))
        if options.context == GOLD:
            filled["chunking"] = self._chosen_chunking(options.chunking, *location)
        return options.model_copy(update=filled)

    def judge(self, name: str, options: JudgeConfig, deepest: int) -> JudgeConfig:
        """Return a judge with absolute files, what it judges, and how deep.

        ``deepest`` is the largest cut-off of any run.
        """
        location = ("judges", name)
        judge = self.with_files(options, *location)
        kinds: tuple[Kind, ...] = (RELEVANCE, *((CORRECTNESS,) if self.config.answers else ()))
        for number, kind in enumerate(judge.judges or ()):
            if kind != RELEVANCE and not self.config.answers:
                problem = f"{kind} needs answers, but the experiment has none; add the key"
                raise KeyProblem((*location, "judges", number), f"{problem} `answers`")
        kinds = judge.judges or kinds
        if "depth" in judge.model_fields_set:
            problem = ""
            if RELEVANCE not in kinds:
                problem = "applies to passages of runs, but this judge does not judge relevance"
            elif judge.depth > deepest:
                problem = f"is {judge.depth}, and the deepest run has {deepest}; "
                problem += f"allowed: 1 to {deepest}"
            if problem:
                raise KeyProblem((*location, "depth"), problem)
        if isinstance(judge, LlmJudge):
            self._check_model(judge.llm, *location)
            for kind in PLACES:
                option = f"{kind}_prompt"
                if option in judge.model_fields_set and kind not in kinds:
                    raise KeyProblem((*location, option), f"this judge does not judge {kind}")
                with naming(*location, option):
                    judge.template(kind)
        return judge.model_copy(update={"judges": kinds, "depth": min(judge.depth, deepest)})

    def metrics(self) -> list[Metric]:
        """Return the metrics in their order."""
        names = enumerate(self.config.metrics)
        return [_metric(name, "metrics", number) for number, name in names]

    def primary(self, metrics: list[Metric]) -> Metric:
        """Return the metric that ranks the leaderboard: ndcg@10 or the nearest that is computed."""
        config = self.config
        if config.primary is None:
            columns = {m.column: m for m in metrics if m.cutoff is None}
            metric = columns.get("ndcg") or next(iter(columns.values()), metrics[0])
            if metric.cutoff is None:
                metric = metric._replace(cutoff=10 if 10 in config.top_k else max(config.top_k))
        else:
            metric = _metric(config.primary, "primary")
        with naming("primary"):
            refuse_lower_is_better(str(metric), "the primary metric must be better when higher")
        if metric.cutoff is None:
            problem = f"needs a cut-off, such as {metric.column}@{max(config.top_k)}"
            raise KeyProblem(("primary",), problem)
        return metric

    def check_floors(self) -> None:
        """Refuse a floor of no metric; whether an evaluation has it is seen when it is read."""
        for floor in self.config.floors:
            measure = floor.metric.partition("@")[0]
            if measure not in METRICS and not measure.startswith(("judged_correct", "sampled_")):
                with naming("floors"):
                    parse_metric(floor.metric)


def _metric(name: str, *location: int | str) -> Metric:
    with naming(*location):
        metric = parse_metric(name)
        refuse_function(metric)
    if metric.measure == "judged":
        raise KeyProblem(location, "judged is always in the leaderboard; remove it")
    return metric
