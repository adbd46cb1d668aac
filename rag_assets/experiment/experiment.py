"""One experiment: its configuration, what that leaves out filled in, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answerers import NONE, AnswerCell, AnswererOptions, answer_cells
from rag_assets.answers.own_generators import OwnGenerator
from rag_assets.evaluation.measure import FunctionMeasure
from rag_assets.evaluation.metric_names import Metric, metric_columns, parse_metric
from rag_assets.experiment.config import (
    ChunkingConfig,
    ExperimentConfig,
    GeneratorConfig,
    JudgeConfig,
    OnlineConfig,
    QuerySetConfig,
    RetrieverConfig,
    StatisticsConfig,
)
from rag_assets.experiment.llm import LlmConfig
from rag_assets.experiment.retriever_rules import reads_reranked, tune_of
from rag_assets.judges.base import CORRECTNESS, OF_CLAIMS, RELEVANCE, Kind
from rag_assets.labels.logs import (
    QuestionMark,
    design_file,
    marked_queries,
    marks_file,
    read_marks,
    with_left_out,
)
from rag_assets.labels.questions import QuestionOptions
from rag_assets.labels.sampling.label_sample import with_graded_pool
from rag_assets.options import FileOptions
from rag_assets.query_sets.query_set import PERTURB
from rag_assets.retrieval.base import ORIGINAL, UNCHUNKED, BaseRetriever, DerivedRetriever
from rag_assets.retrieval.external.base import (
    AnsweredRetriever,
    ExternalRetriever,
    ImportedRetriever,
    reads_its_own,
)
from rag_assets.retrieval.fusion.base import FusedRetriever, Tune
from rag_assets.retrieval.reranking.candidates import RerankedRetriever
from rag_assets.schemas import QRELS
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read, drawn
from rag_assets.sources.formats import CLAIM_LABELS, unread_files
from rag_assets.sources.tables import WITHOUT_RELEVANT, without_relevant

_WITH_CHUNKING = (BaseRetriever, ImportedRetriever, ExternalRetriever, AnsweredRetriever)


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run.

    Attributes:
        config: what the YAML says; the other attributes complete or replace its blocks.
        name: prefix of its asset keys and folder in the store.
        source: the YAML file, or the folder or file that was given instead.
        has_file: whether ``source`` is an ``experiment.yaml``.
        dataset: reader of documents, queries and qrels.
        judge: the unit that is judged: ``document``, ``chunk`` or ``evidence``.
        has_qrels: whether there are labels; without them no metric exists.
        questions: those that a language model writes from chunks, in place of the dataset's
            queries and labels; None: none.
        query_sets: variants of the queries besides the original, by name.
        top_k: all cut-offs, ascending; one cell for each retriever and cut-off.
        listed_top_k: those under ``top_k``; the others serve one metric only (``recall@30``).
        metrics: columns of metrics (:attr:`Metric.column`), computed at each listed top_k.
        extra_metrics: measures at one cut-off only, such as ``recall@30``.
        primary: ranks the leaderboard.
        baseline: the retriever that others are compared with.
        weight: the field of the queries' metadata that weighs them; None: each counts 1.
        statistics: how sure a mean is.
        tuned: retrievers whose parameters were chosen on dev, so that dev cannot rank them.
        keeps_unknown: whether judgments of documents that are not in the corpus are kept.
        generators: what writes answers, by name.
        answerers: generators with contexts, by name; ``top_k`` is given where there is a cut-off.
        judges: who gives verdicts, by name, with what they judge and how deep.
        passage_labels: the file of people's labels of passages of drawn questions, there or not.
        has_graded_pool: whether people graded every passage that was to be drawn, so that their
            grades are labels.
        judgments_log: people's labels of passages that were drawn one by one, there or not.
        answer_labels: the file of people's labels of answers, there or not; None: no YAML file.
        nuggets: the file of nuggets; None: there is none.
        online: logs of a production search; None: none.
        marks: of questions, in place of those that the file beside the log has now.
        functions: measure of ``metrics`` -> the function of the caller's that it is.
    """

    config: ExperimentConfig
    name: str
    source: Path
    has_file: bool
    dataset: Dataset
    judge: str
    has_qrels: bool
    chunkings: Mapping[str, ChunkingConfig]
    query_sets: Mapping[str, QuerySetConfig]
    retrievers: Mapping[str, RetrieverConfig]
    top_k: tuple[int, ...]
    listed_top_k: tuple[int, ...]
    metrics: tuple[str, ...]
    extra_metrics: tuple[Metric, ...]
    primary: Metric
    baseline: str
    weight: str | None
    statistics: StatisticsConfig
    tuned: frozenset[str]
    keeps_unknown: bool
    generators: Mapping[str, GeneratorConfig]
    answerers: Mapping[str, AnswererOptions]
    judges: Mapping[str, JudgeConfig]
    answer_labels: Path | None
    passage_labels: Path | None
    judgments_log: Path
    nuggets: Path | None
    questions: QuestionOptions | None
    has_graded_pool: bool
    online: OnlineConfig | None = None
    marks: Mapping[str, QuestionMark] | None = None
    functions: Mapping[str, FunctionMeasure] = field(default_factory=dict)

    def with_functions(self, functions: Mapping[str, FunctionMeasure]) -> Experiment:
        """Return the experiment with further metrics, which are functions of the caller's."""
        return replace(self, metrics=(*self.metrics, *functions), functions=functions)

    def language_model(self, name: str | None) -> LlmConfig | None:
        """Return one of ``llms`` by its name; None: the experiment's ``llm``, if it has one."""
        return self.config.llm if name is None else self.config.llms[name]

    @property
    def function_versions(self) -> dict[str, str]:
        """Metric that is a function -> the version of its source."""
        return {name: function.version for name, function in self.functions.items()}

    @property
    def question_marks_file(self) -> Path:
        """The file of what people say of questions, there or not."""
        return marks_file(self.judgments_log)

    def question_marks(self) -> Mapping[str, QuestionMark]:
        """Return question -> what people say of it, as far as an evaluation reads it.

        Raises:
            DataError: a line of the file breaks its format.
        """
        return read_marks(self.question_marks_file) if self.marks is None else self.marks

    def read_queries(self, problems: Problems = FIRST) -> Read:
        """Return the questions, without those that people left out; of these the sample, if any.

        Raises:
            DataError: they break their format, or none is left.
        """
        read, marks = self.dataset.read_queries(problems), self.question_marks()
        read = marked_queries(read, marks, self.question_marks_file) if marks else read
        sample = self.config.dataset.sample
        return read if sample is None else drawn(read, sample.queries, sample.seed)

    def every_query(self, queries: pa.Table) -> pa.Table:
        """Return the questions, and those that a sample or people leave out: files may name all."""
        if self.config.dataset.sample is not None:
            queries = self.dataset.read_queries(Problems(collect=True)).table
        return with_left_out(queries, self.question_marks())

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return the labels of questions; those of questions that are not asked are no error.

        Judgments of unknown documents are kept where that is wanted.

        Raises:
            DataError: a judgment breaks its format, names what does not exist, or occurs twice.
        """
        everything = self.every_query(queries)
        read = Read(QRELS.empty(), [])
        if self.dataset.has_qrels or not self.has_graded_pool:
            part = problems.keeping_unknown(self.keeps_unknown)
            read = self.dataset.read_qrels(documents, everything, part)
        if self.has_graded_pool:
            table = with_graded_pool(read.table, self.judgments_log, documents, self.judge)
            read = read._replace(table=table)
        elif everything is queries:
            return read
        counted = pc.is_in(read.table["query_id"], queries["query_id"].combine_chunks())
        table = read.table.filter(counted)
        answerable = set(table.filter(pc.greater(table["grade"], 0))["query_id"].to_pylist())
        notes = [line for line in read.notes if WITHOUT_RELEVANT not in line]
        return Read(table, notes + without_relevant(queries["query_id"], answerable))

    def qrels_files(self) -> list[Path]:
        """Return the files of labels: the dataset's, and those of a pool that is wholly graded."""
        files = list(self.dataset.qrels_files()) if self.dataset.has_qrels else []
        return [*files, *(self.label_sample_files.values() if self.has_graded_pool else ())]

    @property
    def unread_files(self) -> list[str]:
        """A line for each kind of file beside the data that may not be read as one thinks."""
        return unread_files(self.dataset, self.named_files.values())

    @property
    def answer_cells(self) -> dict[str, AnswerCell]:
        """Partition key -> answerer and cut-off, in the order of the YAML."""
        return answer_cells(self.answerers)

    def is_asked_alone(self, answerer: str) -> bool:
        """Return whether an answerer is given the question alone, and may retrieve by itself."""
        options = self.answerers[answerer]
        if options.retriever is None and options.context is None:
            return isinstance(self.generators[options.generator], OwnGenerator)
        return options.context == NONE or reads_its_own(options, self.retrievers)

    @property
    def answer_cutoffs(self) -> tuple[int, ...]:
        """All cut-offs at which anything is answered, ascending."""
        cutoffs = {k for options in self.answerers.values() for k in options.top_k or ()}
        return tuple(sorted(cutoffs))

    @property
    def has_answer_labels(self) -> bool:
        """Whether people said something of answers."""
        return self.answer_labels is not None and self.answer_labels.is_file()

    @property
    def claim_labels(self) -> Path | None:
        """The file of people's labels of claims, beside those of answers; None: there is none."""
        file = self.answer_labels and self.answer_labels.with_name(CLAIM_LABELS)
        return file if file is not None and file.is_file() else None

    @property
    def passage_label_files(self) -> dict[str, Path]:
        """Key of the YAML -> the file, of those that hold what people say of passages."""
        files = {"passage_labels": self.passage_labels, "judgments_log": self.judgments_log}
        return {key: file for key, file in files.items() if file is not None and file.is_file()}

    @property
    def label_sample_files(self) -> dict[str, Path]:
        """``log`` and ``design`` of the passages that were drawn one by one; none, or both."""
        files = {"log": self.judgments_log, "design": design_file(self.judgments_log)}
        return files if all(file.is_file() for file in files.values()) else {}

    @property
    def named_files(self) -> dict[str, Path]:
        """Key of the YAML -> the file that it names besides the dataset, and people's labels."""
        blocks: dict[str, FileOptions] = {
            f"{part}.{name}": options
            for part in ("retrievers", "query_sets", "generators", "judges")
            for name, options in getattr(self, part).items()
        }
        for name, chunking in self.chunkings.items():
            for number, text in enumerate(chunking.index_texts or ()):
                blocks[f"chunking.{name}.index_texts.{number}"] = text
        if self.questions is not None:
            blocks["questions"] = self.questions
        if self.online is not None:
            blocks["online"] = self.online
        files = {
            f"{block}.{option}": file
            for block, options in blocks.items()
            for option, file in options.files().items()
        }
        if self.answer_labels is not None and self.has_answer_labels:
            files["answer_labels"] = self.answer_labels
        if self.nuggets is not None:
            files["nuggets"] = self.nuggets
        if self.claim_labels is not None:
            files["claim_labels"] = self.claim_labels
        files |= self.passage_label_files
        if "design" in self.label_sample_files:
            files["judgments_log design"] = self.label_sample_files["design"]
        if self.question_marks_file.is_file():
            files["marks of questions"] = self.question_marks_file
        return files

    @property
    def judged_retrievers(self) -> tuple[str, ...]:
        """The retrievers that metrics are computed of: all, or none without labels."""
        return tuple(self.retrievers) if self.has_qrels else ()

    @property
    def measures_texts(self) -> bool:
        """Whether anything reads what a retriever returns: metrics, answerers, or judges."""
        return self.has_qrels or bool(self.answerers) or self.judged_depth > 0

    @property
    def read_retrievers(self) -> tuple[str, ...]:
        """The retrievers whose texts anything reads: all or none."""
        return tuple(self.retrievers) if self.measures_texts else ()

    def judges_of(self, *kinds: Kind) -> tuple[str, ...]:
        """Return the names of the judges of any of some kinds, in the order of the YAML."""
        judges = self.judges.items()
        return tuple(name for name, judge in judges if {*kinds} & {*(judge.judges or ())})

    @property
    def relevance_judges(self) -> tuple[str, ...]:
        """The judges of passages."""
        return self.judges_of(RELEVANCE)

    @property
    def correctness_judges(self) -> tuple[str, ...]:
        """The judges of answers."""
        return self.judges_of(CORRECTNESS)

    @property
    def claim_judges(self) -> tuple[str, ...]:
        """The judges of answers without right ones, claim by claim."""
        return self.judges_of(*OF_CLAIMS)

    @property
    def calibrated_judges(self) -> tuple[str, ...]:
        """Those whose verdicts are calibrated with people's labels of answers."""
        return self.correctness_judges if self.has_answer_labels else ()

    @property
    def judged_depth(self) -> int:
        """How many passages of each run any judge judges; 0: none does."""
        return max((self.judges[name].depth for name in self.relevance_judges), default=0)

    @property
    def judged_cutoffs(self) -> tuple[int, ...]:
        """The cut-offs of the runs whose passages are judged.

        The best ranks of deeper runs are those of the first one that is deep enough, but where a
        retriever reads as many candidates as it returns.
        """
        depth = self.judged_depth
        deep = [k for k in self.top_k if k >= depth > 0]
        varies = any(
            getattr(options, "candidates", None) == "top_k" for options in self.retrievers.values()
        )
        return (*(k for k in self.top_k if k < depth), *(deep if varies else deep[:1]))

    @property
    def passage_cutoffs(self) -> tuple[int, ...]:
        """All cut-offs at which anybody reads what a retriever hands over, ascending."""
        return tuple(sorted({*self.answer_cutoffs, *self.judged_cutoffs}))

    def family(self, retriever: str) -> str:
        """Return ``lexical``, ``embedding``, ``external``, ``fused``, ...

        Of what reads a reranked retriever it is ``second_fused`` or ``second_reranked``: an asset
        of Dagster's cannot read other partitions of itself.
        """
        return self._families[retriever]

    @cached_property
    def _families(self) -> dict[str, str]:
        return {
            name: f"second_{config.family}"
            if reads_reranked(config, self.retrievers)
            else config.family
            for name, config in self.retrievers.items()
        }

    def of_family(self, family: str) -> tuple[str, ...]:
        """Return the retrievers of one family, in the order of the YAML."""
        return tuple(name for name, other in self._families.items() if other == family)

    def inputs(self, retriever: str) -> tuple[str, ...]:
        """Return the retrievers whose rankings this one reads; none where it scores all units."""
        config = self.retrievers[retriever]
        asks_none = isinstance(config, DerivedRetriever) and config.scores_all
        return () if asks_none else self._named_by(retriever)

    def _named_by(self, retriever: str) -> tuple[str, ...]:
        config = self.retrievers[retriever]
        return config.input_names if isinstance(config, FusedRetriever | RerankedRetriever) else ()

    @property
    def perturbed(self) -> dict[str, str | None]:
        """Retriever that searches perturbed queries, by others too -> the one that does not."""
        sets = {name for name, of in self.query_sets.items() if of.strategy == PERTURB}

        def described(name: str, original_of: Collection[str]) -> dict[str, object]:
            block = self.retrievers[name].model_dump(mode="json")
            if block.get("query_set") in original_of:
                block["query_set"] = ORIGINAL
            inputs = [described(source, original_of) for source in self._named_by(name)]
            return {**block, "input": None, "inputs": inputs}

        as_it_is, as_asked = (
            {name: described(name, of) for name in self.retrievers if sets} for of in ((), sets)
        )
        return {
            name: next((twin for twin, block in as_it_is.items() if block == as_asked[name]), None)
            for name in as_it_is
            if as_asked[name] != as_it_is[name]
        }

    def chunking_of(self, retriever: str) -> str:
        """Return the chunking that a base retriever searches."""
        config = self.retrievers[retriever]
        if not isinstance(config, _WITH_CHUNKING) or config.chunking is None:
            raise ValueError(f"{retriever} has no chunking of its own")
        return config.chunking

    def chunkings_of(self, retriever: str) -> tuple[str, ...]:
        """Return every chunking whose chunks can be in this retriever's runs, sorted."""
        inputs = self._named_by(retriever)
        if not inputs:
            name = self.chunking_of(retriever)
            return (name,) if name != UNCHUNKED else ()
        return tuple(
            sorted({name for input_name in inputs for name in self.chunkings_of(input_name)})
        )

    def locates(self, retriever: str) -> bool:
        """Return whether hits of a base retriever are texts or spans to be located."""
        config = self.retrievers[retriever]
        is_own = isinstance(config, ImportedRetriever) and config.chunking == UNCHUNKED
        return is_own or isinstance(config, ExternalRetriever | AnsweredRetriever)

    def located_of(self, retriever: str) -> tuple[str, ...]:
        """Return the base retrievers with chunks of their own that can be in its runs, sorted."""
        names = self._named_by(retriever)
        if not names:
            return (retriever,) if self.locates(retriever) else ()
        return tuple(sorted({base for name in names for base in self.located_of(name)}))

    def query_set_of(self, retriever: str) -> str:
        """Return the query set that a base retriever searches for."""
        config = self.retrievers[retriever]
        if not isinstance(config, BaseRetriever):
            raise ValueError(f"{retriever} has no query set of its own")
        return config.query_set

    def candidate_depths(self, retriever: str, top_k: int | None = None) -> set[int]:
        """Return the depths to which fused and reranked retrievers read this one's ranking.

        With ``top_k``, those of their cells at this cut-off only.
        """
        consumers = [
            config
            for config in self.retrievers.values()
            if isinstance(config, DerivedRetriever) and retriever in config.input_names
        ]
        depths = {c.candidates for c in consumers if isinstance(c.candidates, int)}
        if any(c.candidates == "top_k" for c in consumers):
            depths |= set(self.top_k) if top_k is None else {top_k}
        return depths | {
            self.tuning_depth(name) for name in self.tuned_fusions if retriever in self.inputs(name)
        }

    def depth(self, retriever: str) -> int:
        """Return how deep the stored ranking must be: the deepest top_k or consumer."""
        return max({*self.top_k, *self.candidate_depths(retriever)})

    @property
    def tuned_fusions(self) -> tuple[str, ...]:
        """The fused retrievers whose weights are chosen on dev, in the order of the YAML."""
        return tuple(name for name in self.retrievers if self.tune(name) is not None)

    def tune(self, retriever: str) -> Tune | None:
        """Return how a retriever's weights are chosen; None: they are not."""
        return tune_of(self.retrievers[retriever])

    def tuning_metric(self, retriever: str) -> Metric:
        """Return the metric at which a tuned fusion's weights are best on dev."""
        tune = self.tune(retriever)
        return self.primary if tune is None or tune.metric is None else parse_metric(tune.metric)

    def tuning_depth(self, retriever: str) -> int:
        """Return how many ranks of each input are read to choose the weights of a fusion."""
        candidates = getattr(self.retrievers[retriever], "candidates", "top_k")
        cutoff = self.tuning_metric(retriever).cutoff or max(self.top_k)
        return cutoff if candidates == "top_k" else int(candidates)

    def measures_at(self, top_k: int) -> tuple[str, ...]:
        """Return the columns of the metrics of the cells at ``top_k``, in canonical order."""
        extra = {m.column for m in (*self.extra_metrics, self.primary) if m.cutoff == top_k}
        full = set(self.metrics) if top_k in self.listed_top_k else set()
        return tuple(metric_columns(full | extra))
