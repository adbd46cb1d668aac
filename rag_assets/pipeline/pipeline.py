"""Brings partitions up to date: asks the store first, computes what is missing, once.

What a partition must be follows from the configuration, the source files and the upstream
artifacts alone: there is no mutable record of "the latest version" that could be wrong. A partition
is current when the store holds an artifact with the fingerprint of its recipe.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import check_unchanged, code_versions
from rag_assets.compute.compute import Compute, compute_of
from rag_assets.engine.measurements import MEASUREMENTS, Measurements
from rag_assets.engine.rankings import Rankings
from rag_assets.engine.recipe import Attempts, Recipe, Revisions, manifest_of
from rag_assets.engine.stage import (
    FolderProduct,
    Product,
    Stage,
    checked,
    table_manifest,
    with_all_digests,
)
from rag_assets.engine.stage_context import StoredRankings
from rag_assets.errors import DataError, MissingArtifact, RagAssetsError, StoreError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.evaluations import fetch_experiments
from rag_assets.pipeline.stages import STAGES, stages_in_order
from rag_assets.progress import Progress, no_progress
from rag_assets.retrieval.workspace import Measure, Usage, Workspace, unmeasured
from rag_assets.sources.row_files import unreadable
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore, Manifest, save_table
from rag_assets.store.content_cache import CACHE, COMPLETIONS
from rag_assets.store.file_stamps import SourceFiles
from rag_assets.store.locks import shared_lease
from rag_assets.store.settings import StoreSettings

if TYPE_CHECKING:
    from rag_assets.llm.client import ChatModel
    from rag_assets.llm.completions import Budget, Completions
    from rag_assets.llm.replies import ReplyStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of one partition that was asked for."""

    key: ArtifactKey
    artifact: Artifact
    reused: bool
    seconds: float


class _Digests(dict[str, str]):
    """Digests by part; one that could not be made is tried again, and raises the reason."""

    def __init__(self, digest: Callable[[str], str]) -> None:
        super().__init__()
        self._digest = digest

    def __missing__(self, part: str) -> str:
        return self._digest(part)


class Pipeline:
    """One experiment and its store, seen at one moment.

    ``root`` is the experiment's folder in the store; objects lie beside it, for all experiments.
    Source files are hashed once: an edit while an evaluation runs belongs to the next one.
    ``n_computed`` counts the partitions that were computed, not found in the store; ``at_work``
    says which are computed now, for people.
    """

    def __init__(
        self,
        experiment: Experiment,
        settings: StoreSettings,
        progress: Progress = no_progress,
        *,
        allow_code: bool = False,
    ) -> None:
        """Bind an experiment to a store; nothing is read or written yet, but of a remote store."""
        self.experiment = experiment
        self.allow_code = allow_code
        self.settings = settings
        self.progress = progress
        self.root = root = settings.store / experiment.name
        self.store = ArtifactStore(settings.store, settings.locks, settings.remote)
        fetch_experiments(settings, experiment.name)
        self.measurements = Measurements(settings.store / MEASUREMENTS, experiment.name)
        self.rankings: StoredRankings = Rankings(self)
        self.attempts = Attempts(root / "attempts", self.store, settings.write_record)
        self.revisions = Revisions(root / "revisions", settings.write_record)
        self._code_versions = code_versions(settings.code_versions)
        self._sources = SourceFiles(settings.state_dir / "source_digests.json")
        self.n_computed = 0
        self.at_work = ""
        self._chat_models: dict[str | None, ChatModel] = {}
        self._budgets: dict[str | None, Budget] = {}
        self._current: dict[ArtifactKey, Artifact] = {}
        self._caches: set[str] = set()
        self._told: set[ArtifactKey] = set()

    @classmethod
    def open(
        cls,
        path: Path | str,
        store: Path | str | None = None,
        progress: Progress = no_progress,
        *,
        allow_code: bool = False,
    ) -> Self:
        """Bind the experiment at ``path`` to the store in force; raises as `open_experiment`."""
        settings = StoreSettings.resolve(store)
        return cls(open_experiment(path, settings), settings, progress, allow_code=allow_code)

    @cached_property
    def source_digests(self) -> Mapping[str, str]:
        """Digests of source files by part; see :class:`StageContext`, as for what follows."""
        parts = ["documents"]
        if self.experiment.questions is None:
            parts += ["queries", *(["qrels"] if self.experiment.has_qrels else [])]
        digests = _Digests(self._source_digest)
        for part in parts:
            with suppress(DataError):
                digests[part] = self._source_digest(part)
        return digests

    def workspace(self, retriever: str, key: ArtifactKey | None = None) -> Workspace:
        """Return the caches and the progress of one retriever."""
        return Workspace(
            self._cache(CACHE),
            lambda label, total: self.progress(f"{label} for {retriever}", total),
            self._measure_for(retriever, key) if key is not None else unmeasured,
            self.compute,
        )

    def cache_folder(self, name: str) -> Path:
        """Return the folder of one cache of computed values."""
        return self._cache(f"{CACHE}/{name}")

    def _cache(self, name: str) -> Path:
        """Return a folder of caches; what a remote store has of it is brought once."""
        if self.settings.remote is not None and name not in self._caches:
            self.settings.remote.fetch(name)
            self._caches.add(name)
        return self.settings.store / name

    @property
    def compute(self) -> Compute:
        """Where models and searches are computed."""
        return compute_of(self.experiment.config.compute)

    def _measure_for(self, retriever: str, key: ArtifactKey) -> Measure:
        recipe = self.recipe(key)
        if recipe is None:
            raise MissingArtifact(f"an input of {key} is not in the store")

        def measure(usage: Usage) -> None:
            self.measurements.add(
                fingerprint=recipe.fingerprint,
                asset=key.asset,
                retriever=retriever,
                model=getattr(self.experiment.retrievers[retriever], "model", None),
                **asdict(usage),
            )

        return measure

    def code_version(self, roots: Iterable[Root]) -> str:
        """Return the version of all code that these roots reach."""
        return self._code_versions.of(roots)

    def versions_of(self, retriever: str) -> Mapping[str, str]:
        """Return what computes a retriever: its engines, the files that it names."""
        config = self.experiment.retrievers[retriever]
        files = config.files()
        read = {f"file.{option}": self.file_digest(file) for option, file in files.items()}
        return {**config.versions(), **read}

    def file_digest(self, file: Path) -> str:
        """Return the digest of a file's content."""
        try:
            return self._sources.digest([file], file)
        except OSError as error:
            raise unreadable(file, error) from error

    def chat_model(self, llm: str | None = None) -> ChatModel:
        """Return a language model of the experiment, opened once."""
        from rag_assets.llm.completions import Budget

        if llm not in self._chat_models:
            config = self.experiment.language_model(llm)
            if config is None:
                raise UsageError(f"{self.experiment.name} has no language model; add `llm`")
            self._chat_models[llm] = config.chat_model(self.compute)
            self._budgets[llm] = Budget(config)
        return self._chat_models[llm]

    @property
    def replies(self) -> ReplyStore:
        """What language models said, in any experiment of the store."""
        from rag_assets.llm.replies import ReplyStore

        return ReplyStore(self.cache_folder(COMPLETIONS))

    @contextmanager
    def completions(
        self, label: str, total: int, llm: str | ChatModel | None = None
    ) -> Iterator[Completions]:
        """Open a language model with its replies; its budget holds for the whole evaluation."""
        from rag_assets.llm.completions import Budget, Completions

        if llm is None or isinstance(llm, str):
            model, budget = self.chat_model(llm), self._budgets[llm]
        else:
            model, budget = llm, Budget()
        with self.progress(label, total) as advance:
            yield Completions(model, self.replies, budget, progress=advance)

    def check_source(self, part: str) -> None:
        """Check that files which were just read are still those that were hashed."""
        if self._source_digest(part) != self.source_digests[part]:
            problem = f"the {part} changed while they were read; evaluate again"
            raise DataError(problem, file=self.experiment.dataset.root)

    def _source_digest(self, part: str) -> str:
        dataset = self.experiment.dataset
        files = {
            "documents": dataset.document_files,
            "queries": dataset.query_files,
            "qrels": self.experiment.qrels_files,
        }
        try:
            return self._sources.digest(files[part](), dataset.root)
        except OSError as error:
            raise unreadable(Path(error.filename or dataset.root), error) from error

    def stages(self) -> list[Stage]:
        """Return the stages that the experiment uses, in the order of the graph."""
        stages = stages_in_order(self.experiment).values()
        return [stage for stage in stages if stage.keys(self.experiment)]

    def recipe(self, key: ArtifactKey) -> Recipe | None:
        """Return what determines a partition now; None while an input is missing."""
        return STAGES[key.asset].recipe(self, key)

    def current(self, key: ArtifactKey) -> Artifact | None:
        """Return the up-to-date artifact of a partition; None when it must be computed."""
        if key not in self._current:
            self._look_up(key)
        return self._current.get(key)

    def _look_up(self, key: ArtifactKey) -> Recipe | None:
        """Note the up-to-date artifact; return what it is made of where it must be computed."""
        recipe = self.recipe(key)
        artifact = self.store.find(key.asset, recipe.fingerprint) if recipe else None
        stage = STAGES[key.asset]
        if artifact is None or not stage.is_complete(self, key):
            return recipe
        if not stage.projections.keys() <= artifact.manifest.digests.keys():
            artifact = with_all_digests(stage, artifact)
        self._current[key] = artifact
        if key not in self._told:
            self._told.add(key)
            _log.debug("reuse    %s", key)
        return None

    def assume(self, key: ArtifactKey, artifact: Artifact) -> None:
        """Take an artifact for the up-to-date one, stored or not: for a plan, never to compute."""
        self._current[key] = artifact

    def forget(self) -> None:
        """Look again at what is up to date: what a partition must be has changed."""
        self._current.clear()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Keep what is up to date, and what is computed, from being removed meanwhile."""
        with shared_lease(self.settings, f"an evaluation of {self.experiment.name}"):
            if self.settings.remote is not None:
                self.settings.remote.refresh()
            self.forget()  # what was found before may be gone
            yield

    def artifact(self, key: ArtifactKey) -> Artifact:
        """Return the up-to-date artifact of a partition."""
        artifact = self.current(key)
        if artifact is None:
            raise MissingArtifact(
                f"{key} is not in the store for the current files and "
                "configuration; materialize it first, or run `rag-assets evaluate "
                f"{self.experiment.source}`"
            )
        return artifact

    def data_version(self, artifact: Artifact, key: ArtifactKey) -> str:
        """Return the version of a partition as its consumers see it."""
        return STAGES[key.asset].data_version(self, key, artifact.manifest.digests["all"])

    def materialize(self, asset: str, keys: Sequence[ArtifactKey]) -> list[Outcome]:
        """Bring partitions of one asset up to date, in the order given.

        Raises:
            MissingArtifact: a required input is not in the store.
        """
        stage = STAGES[asset]
        # The lease makes the store, and without one nothing is up to date.
        if self.settings.store.is_dir() and all(self.current(key) is not None for key in keys):
            return self._materialize(stage, keys)
        with shared_lease(self.settings, f"a computation of {self.experiment.name}"):
            return self._materialize(stage, keys)

    def _materialize(self, stage: Stage, keys: Sequence[ArtifactKey]) -> list[Outcome]:
        for key in keys:
            for item in stage.inputs(self.experiment, key):
                if not item.optional:
                    self.artifact(item.key)
        groups: Iterable[Sequence[ArtifactKey]] = [keys] if stage.batched else [[k] for k in keys]
        computed: dict[ArtifactKey, float] = {}
        try:
            for group in groups:
                # Of many, the first digits are locked: files are held open.
                prints = {name[:2] if stage.batched else name for name in self._missing(group)}
                with self.store.lock(stage.name, prints):
                    # Another process may have computed them meanwhile.
                    computed |= self._compute(stage, list(self._missing(group).values()))
        except RagAssetsError:
            with suppress(StoreError):
                self._send_new()
            raise
        self._send_new()
        return [
            Outcome(key, self.artifact(key), key not in computed, computed.get(key, 0.0))
            for key in keys
        ]

    def _send_new(self) -> None:
        if self.settings.remote is not None:
            self.settings.remote.send_new()

    def _missing(self, keys: Sequence[ArtifactKey]) -> dict[str, ArtifactKey]:
        """Return fingerprint -> what must be computed; of partitions that are equal, the first."""
        missing: dict[str, ArtifactKey] = {}
        for key in keys:
            recipe = None if key in self._current else self._look_up(key)
            if recipe is not None:
                missing.setdefault(recipe.fingerprint, key)
        return missing

    def _compute(self, stage: Stage, keys: Sequence[ArtifactKey]) -> dict[ArtifactKey, float]:
        seconds: dict[ArtifactKey, float] = {}
        if not keys:
            return seconds
        check_unchanged()
        _log.debug("compute  %s", ", ".join(map(str, keys)))
        self._told.update(keys)
        self.at_work = str(keys[0]) if len(keys) == 1 else f"{stage.name}: {len(keys)} partitions"
        started = time.perf_counter()
        for key, product in stage.compute(self, keys):
            recipe = self.recipe(key)
            if recipe is None:
                raise MissingArtifact(f"an input of {key} was removed while it was computed")
            artifact = self._write(stage, product, recipe)
            manifest = artifact.manifest
            self.n_computed += 1
            seconds[key] = time.perf_counter() - started
            _log.info("computed %s: %d rows in %.2f s", key, manifest.rows, seconds[key])
            self.measurements.add(
                stage.name,
                manifest.fingerprint,
                seconds[key],
                asset=stage.name,
                retriever=dict(key.partition).get("retriever"),
                bytes=artifact.size,
            )
            started = time.perf_counter()
        self.at_work = ""
        return seconds

    def _write(self, stage: Stage, product: Product, recipe: Recipe) -> Artifact:
        def fill_folder(folder: Path) -> Manifest:
            return manifest_of(recipe, {}, *folder_product.write(folder))

        def fill_table(folder: Path) -> Manifest:
            with ThreadPoolExecutor(1) as beside:  # hashing takes as long as writing
                manifest = beside.submit(table_manifest, stage, table, recipe)
                save_table(table.table, folder)
                return manifest.result()

        if isinstance(product, FolderProduct):
            folder_product, carry_over = product, product.carry_over_file
            return self.store.write(recipe.stage, recipe.fingerprint, fill_folder, carry_over)
        table = checked(stage, product)
        return self.store.write(recipe.stage, recipe.fingerprint, fill_table)
