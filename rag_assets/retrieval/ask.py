"""What retrievers find for one question that stands in no file: no queries and no labels are read.

Chunks and indexes are those of the experiment, computed and kept in its store where they are not
there yet. What belongs to the question lies in a folder that is removed afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.measurements import Measurements
from rag_assets.engine.recipe import Attempts, Revisions
from rag_assets.errors import NotEvaluated, RagAssetsError, UsageError
from rag_assets.evaluation.units import unit_spans
from rag_assets.experiment.config import MeasurementsConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.pool import spans_of
from rag_assets.pipeline.failed_queries import ask_revisions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection, cost
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrieval.external.base import ImportedRetriever
from rag_assets.retrieval.external.units import chunks_of
from rag_assets.retrieval.runs_stage import chunk_keys, run_key
from rag_assets.schemas import QUERIES
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey, ArtifactStore

QUERY_ID = "question"

_TUNING = "tuning"


class Hit(NamedTuple):
    """A passage that a retriever returned.

    Attributes:
        rank: from 1.
        score: the retriever's own; comparable within its list only.
        document_id: of the document that holds it.
        title: of that document.
        start: its first character in the document's text.
        end: the character after its last one.
        text: the passage.
    """

    rank: int
    score: float
    document_id: str
    title: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class RetrieverHits:
    """What one retriever returned.

    Attributes:
        retriever: its name.
        hits: the best first; none where there is a ``problem``.
        seconds: until they were there, what had to be built included.
        problem: why there is no answer of it; None: there is one.
    """

    retriever: str
    hits: tuple[Hit, ...]
    seconds: float
    problem: str | None = None


def ask(
    pipeline: Pipeline, question: str, retrievers: Sequence[str] = (), top_k: int = 5
) -> Iterator[RetrieverHits]:
    """Yield what each retriever finds, as soon as it is known: the cheapest ones first.

    A retriever that cannot answer (its server is down, its rankings come from a file) has a
    ``problem``; the others go on.

    Args:
        pipeline: the experiment and its store.
        question: a text that is not blank.
        retrievers: names of those to ask; all if empty.
        top_k: so many passages of each.

    Raises:
        UsageError: the question is blank, or a retriever is not the experiment's.
        DataError: the documents cannot be read.
    """
    if not question.strip():
        raise UsageError("the question is blank; write one")
    names = Selection.of(pipeline.experiment, retrievers).retrievers
    with TemporaryDirectory(prefix="rag_assets_ask_") as folder, pipeline.evaluating():
        pipeline.materialize(DOCUMENTS_KEY.asset, [DOCUMENTS_KEY])
        question_pipeline = _QuestionPipeline(pipeline, question, top_k, Path(folder))
        for name in sorted(names, key=lambda name: cost(pipeline.experiment, name)):
            started = time.perf_counter()
            hits: tuple[Hit, ...] = ()
            problem = None
            try:
                hits = question_pipeline.hits(name)
            except RagAssetsError as error:
                problem = str(error)
            yield RetrieverHits(name, hits, time.perf_counter() - started, problem)


class _QuestionDataset:
    """The documents of a dataset, and one question in place of its queries."""

    def __init__(self, dataset: Dataset, question: str) -> None:
        self._dataset, self._question = dataset, question

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a dataset has)
        return getattr(self._dataset, name)

    def query_files(self) -> list[Path]:
        return []

    def read_queries(self, problems: Problems = FIRST) -> Read:
        row: dict[str, object] = {"query_id": QUERY_ID, "text": self._question, "tags": []}
        row["metadata"] = "{}"
        return Read(QUERIES.from_rows([row]), [])


def _experiment(experiment: Experiment, question: str, top_k: int) -> Experiment:
    """Return an experiment that ranks passages for one question, and measures nothing."""
    unmeasured = {"split": None, "measurements": MeasurementsConfig(latency_sample=0)}
    return replace(
        experiment,
        config=experiment.config.model_copy(update=unmeasured),
        dataset=cast("Dataset", _QuestionDataset(experiment.dataset, question)),
        judge="evidence",
        has_qrels=False,
        questions=None,
        top_k=(top_k,),
        listed_top_k=(top_k,),
        weight=None,
        answerers={},
        judges={},
    )


class _QuestionPipeline(Pipeline):
    """The pipeline of one question over what another pipeline has or builds."""

    def __init__(self, base: Pipeline, question: str, top_k: int, folder: Path) -> None:
        experiment = _experiment(base.experiment, question, top_k)
        super().__init__(experiment, base.settings, base.progress)
        self.store = ArtifactStore(folder, base.settings.locks)
        self.measurements = Measurements(folder / "measurements")
        self.attempts = Attempts(folder / "attempts", self.store)
        self.revisions = Revisions(folder / "revisions")
        self._base = base
        self._top_k = top_k

    def hits(self, retriever: str) -> tuple[Hit, ...]:
        """Return what a retriever finds; what it needs is computed first."""
        if isinstance(self.experiment.retrievers[retriever], ImportedRetriever):
            raise UsageError("its rankings come from a file without this question")
        ask_revisions(self, (retriever,))
        run = run_key(self.experiment, retriever, self._top_k)
        needed = self._needed([run, *chunk_keys(self.experiment, retriever)])
        for asset in STAGES:
            for key in [key for key in needed if key.asset == asset]:
                if needed[key]:
                    self.materialize(asset, [key])
                else:
                    self.assume(key, self._of_base(key))
        artifact = self.artifact(run)
        if artifact.manifest.failures:
            raise UsageError(next(iter(artifact.manifest.failures.values())))
        return self._read(retriever, artifact.table())

    def _needed(self, ends: Sequence[ArtifactKey]) -> dict[ArtifactKey, bool]:
        """Return what partitions are made of, and whether it depends on the question."""
        needed: dict[ArtifactKey, bool] = {}

        def depends(key: ArtifactKey) -> bool:
            if key not in needed:
                inputs = STAGES[key.asset].inputs(self.experiment, key)
                above = [] if key.asset == _TUNING else [i.key for i in inputs if not i.optional]
                needed[key] = key == QUERIES_KEY or any([depends(parent) for parent in above])
            return needed[key]

        for end in ends:
            depends(end)
        return needed

    def _of_base(self, key: ArtifactKey) -> Any:  # noqa: ANN401
        if key.asset == _TUNING and self._base.current(key) is None:
            raise NotEvaluated("its weights are tuned on labels; run `evaluate` first")
        if key.asset != _TUNING:
            self._base.materialize(key.asset, [key])
        return self._base.artifact(key)

    def _read(self, retriever: str, run: pa.Table) -> tuple[Hit, ...]:
        keys = chunk_keys(self.experiment, retriever)
        spans = spans_of(pa.concat_tables([unit_spans(chunks_of(self.artifact(k))) for k in keys]))
        units = [spans[unit] for unit in run["unit_id"].to_pylist()]
        documents = self._base.artifact(DOCUMENTS_KEY).table(["document_id", "title", "text"])
        ids = pa.array({document for document, _, _ in units}, pa.string())
        rows = documents.filter(pc.is_in(documents["document_id"], value_set=ids)).to_pylist()
        read = {row["document_id"]: row for row in rows}
        ranks, scores = run["rank"].to_pylist(), run["score"].to_pylist()
        return tuple(
            Hit(rank, score, name, read[name]["title"], start, end, read[name]["text"][start:end])
            for rank, score, (name, start, end) in zip(ranks, scores, units, strict=True)
        )
