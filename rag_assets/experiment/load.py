"""From a path to an :class:`Experiment`: find the YAML, validate it, fill in the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from rag_assets.chunking.registry import CHUNKING_TYPES
from rag_assets.errors import ConfigError, UsageError, allowed_names
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_names import Metric, parse_metric, refuse_lower_is_better
from rag_assets.experiment.answer_rules import (
    answerers_of,
    check_answer_metrics,
    check_generator,
)
from rag_assets.experiment.config import (
    ChunkingConfig,
    DatasetConfig,
    ExperimentConfig,
    QuerySetConfig,
    RetrieverConfig,
)
from rag_assets.experiment.defaults import (
    default_chunkings,
    default_primary,
    default_retrievers,
    default_weight,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.grids import expand_grids
from rag_assets.experiment.index_text_rules import check_index_texts
from rag_assets.experiment.judge_rules import checked_judge
from rag_assets.experiment.llm_rules import check_llm, check_llms
from rag_assets.experiment.names import name_from
from rag_assets.experiment.question_rules import checked_questions, statistics_of
from rag_assets.experiment.retriever_rules import (
    Fail,
    check_display_names,
    check_retrievers,
    check_tuning,
    tuned_retrievers,
)
from rag_assets.experiment.yaml_file import Location, YamlFile, dotted, read_yaml
from rag_assets.labels.sampling.graded_pool import is_wholly_graded
from rag_assets.options import FileOptions
from rag_assets.plain_text import shortened
from rag_assets.plugins import Members
from rag_assets.query_sets.prompted import PromptedQuerySet
from rag_assets.query_sets.registry import QUERY_SET_TYPES
from rag_assets.regular_files import missing_file, unusable
from rag_assets.retrieval.base import ORIGINAL, BaseRetriever, ImportedRetriever
from rag_assets.retrieval.external.base import OWN, ExternalRetriever
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.formats import (
    ANSWER_LABELS,
    FORMATS,
    LABELLING_LOG,
    PASSAGE_LABELS,
    open_dataset,
    unread_labels,
    with_columns,
)
from rag_assets.sources.ir_datasets import IrDataset
from rag_assets.sources.rows import KEEP

EXPERIMENT_FILE = "experiment.yaml"
YAML_SUFFIXES = (".yaml", ".yml")

WithFiles = TypeVar("WithFiles", bound=FileOptions)

KINDS: tuple[Members[Any], ...] = (
    RETRIEVER_TYPES,
    CHUNKING_TYPES,
    QUERY_SET_TYPES,
    MEASURE_TYPES,
    FORMATS,
)
"""What packages may add to."""


def load_experiment(path: Path | str) -> Experiment:
    """Load the experiment at ``path``.

    Args:
        path: a folder with an ``experiment.yaml``, such a file itself, or any dataset folder or
            file, which gets the default experiment.

    Raises:
        UsageError: there is nothing at ``path``, or it is no path.
        ConfigError: the YAML is not valid; names file, line and key. Or what an installed package
            adds is broken.
        DataError: the dataset's format is not recognised.
    """
    if not isinstance(path, str | os.PathLike):
        given = f"path is {type(path).__name__} {path!r:.60}; expected a folder or a file"
        raise UsageError(f"{given}; rag_assets.evaluate takes data by name: documents=, queries=")
    for kind in KINDS:
        kind.check()
    path = Path(path).absolute()
    if ".." in path.parts:
        path = path.resolve()
    if reason := unusable(path):
        raise UsageError(f"{shortened(str(path))}: {reason}")
    try:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        file = _experiment_file(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if file is None:
        return default_experiment(path)
    yaml_file = expand_grids(read_yaml(file))
    return complete(file, yaml_file, validate(yaml_file))


def default_experiment(path: Path) -> Experiment:
    """Return what is evaluated where there is no YAML file; ``path`` is the data, and absolute.

    Raises:
        UsageError: there is nothing at ``path``.
        DataError: the dataset's format is not recognised.
    """
    return complete(path, None, ExperimentConfig(dataset=DatasetConfig(path=path)))


def _experiment_file(path: Path) -> Path | None:
    """Return the YAML file; None where there is none, and the path is that of the data."""
    if path.suffix in YAML_SUFFIXES and not path.is_dir():
        return path
    file = path / EXPERIMENT_FILE
    # A FIFO, or a link to nothing, is told by who reads it.
    is_there = path.is_dir() and os.path.lexists(file) and not file.is_dir()
    return file if is_there else None


def validate(yaml_file: YamlFile) -> ExperimentConfig:
    """Check the data of a YAML file against the shape of an experiment.

    Raises:
        ConfigError: the first problem, with its line and key, and how many there are.
    """
    try:
        return ExperimentConfig.model_validate(yaml_file.data)
    except ValidationError as error:
        from rag_assets.experiment.problems import first_problem

        location, text = first_problem(error.errors(), yaml_file.lines)
        raise _error(yaml_file, location, text) from error


def _error(yaml_file: YamlFile | None, location: Location, problem: str) -> Exception:
    key = dotted(location)
    if yaml_file is None:
        return ConfigError(problem, key=key)
    return ConfigError(problem, file=yaml_file.path, line=yaml_file.line_of(location), key=key)


def complete(source: Path, yaml_file: YamlFile | None, config: ExperimentConfig) -> Experiment:
    """Fill in the defaults and check what only holds between keys.

    Args:
        source: the YAML file; without one the folder or file of the data.
        yaml_file: what it holds, for the errors.
        config: what was read.

    Raises:
        ConfigError: two keys do not go together; names file, line and key.
        DataError: the dataset's format is not recognised.
    """

    def fail(location: Location, problem: str) -> Exception:
        return _error(yaml_file, location, problem)

    dataset = _open(source, yaml_file, config.dataset)
    chunkings = dict(config.chunking) or default_chunkings(dataset)
    if OWN in chunkings:
        raise fail(("chunking", OWN), "is the name for the chunks of a search that is not ours")
    retrievers = dict(config.retrievers) or default_retrievers()
    retrievers = {
        name: _with_chunking(name, retriever, list(chunkings), fail)
        for name, retriever in retrievers.items()
    }
    retrievers = {
        name: _with_filters(options, config.filters) for name, options in retrievers.items()
    }
    check_retrievers(retrievers, fail)
    check_llms(config.llms, fail)
    query_sets = _query_sets(source, config, retrievers, fail)
    base = source.parent if yaml_file is not None else source
    chunkings = check_index_texts(chunkings, retrievers, base, config, fail)
    retrievers = {
        name: _with_files("retrievers", name, retriever, base, fail)
        for name, retriever in retrievers.items()
    }
    questions = checked_questions(config, list(chunkings), base, fail)
    log = _log(source, base, config.judgments_log)
    has_graded_pool = questions is None and is_wholly_graded(log)
    has_labels = dataset.has_qrels or questions is not None or has_graded_pool
    default_judge = dataset.default_judge if questions is None else "evidence"
    judge = config.dataset.judge or default_judge
    if judge == "chunk":
        _check_given_chunks(chunkings, fail)
    measures, extra = _metrics(config, fail)
    primary = _primary(config, measures, extra, fail)
    check_answer_metrics(config, fail)
    generators = {
        name: check_generator(
            name, _with_files("generators", name, generator, base, fail), config, fail
        )
        for name, generator in config.generators.items()
    }
    answerers = answerers_of(config, list(retrievers), list(chunkings), fail, has_labels=has_labels)
    baseline = config.baseline or next(iter(retrievers))
    if baseline not in retrievers:
        raise fail(("baseline",), f"unknown retriever {allowed_names(baseline, retrievers)}")
    for name in config.checks.drift.far_below:
        if name not in retrievers:
            problem = f"unknown retriever {allowed_names(name, retrievers)}"
            raise fail(("checks", "drift", "far_below", name), problem)
    check_display_names(config.display_names, retrievers, fail)
    cutoffs = {m.cutoff for m in (*extra, primary) if m.cutoff is not None}
    listed = tuple(sorted(set(config.top_k)))
    judges = {
        name: checked_judge(
            name,
            _with_files("judges", name, one, base, fail),
            config,
            max({*listed, *cutoffs}),
            fail,
        )
        for name, one in config.judges.items()
    }
    lacks: dict[str, str | None] = {} if config.split is not None else {"split": None}
    if not has_labels:
        lacks["labels"] = unread_labels(dataset)
    check_tuning(retrievers, {*listed, *cutoffs}, lacks, partial(_fail_tuning, yaml_file))
    return Experiment(
        name=config.name or _default_name(source, yaml_file is not None),
        is_named=config.name is not None,
        source=source,
        has_file=yaml_file is not None,
        dataset=dataset,
        judge=judge,
        has_qrels=has_labels,
        chunkings=chunkings,
        questions=questions,
        query_sets=query_sets,
        llm=config.llm,
        llms=config.llms,
        retrievers=retrievers,
        top_k=tuple(sorted({*listed, *cutoffs})),
        listed_top_k=listed,
        metrics=measures,
        extra_metrics=extra,
        primary=primary,
        baseline=baseline,
        split=config.split,
        weight=_weight(config, dataset),
        statistics=statistics_of(config),
        measurements=config.measurements,
        checks=config.checks,
        owners=config.owners,
        display_names=config.display_names,
        keeps_unknown=config.dataset.unknown_documents == KEEP,
        context_tokenizer=config.context.tokenizer,
        tuned=tuned_retrievers(retrievers),
        schedule=config.schedule,
        compute=config.compute,
        generators=generators,
        answerers=answerers,
        answer_metrics=config.answer_metrics,
        judges=judges,
        answer_labels=base / (config.answer_labels or ANSWER_LABELS) if yaml_file else None,
        passage_labels=base / (config.passage_labels or PASSAGE_LABELS) if yaml_file else None,
        judgments_log=log,
        has_graded_pool=has_graded_pool,
    )


def _weight(config: ExperimentConfig, dataset: Dataset) -> str | None:
    if "weight" in config.model_fields_set:
        return config.weight
    return default_weight(dataset) if config.questions is None else None


def _log(source: Path, base: Path, named: Path | None) -> Path:
    """Return the log of judgments; beside ``other.yaml`` it is ``other.labelling.jsonl``.

    A folder may hold several experiments, each with a sample of its own.
    """
    if named is not None:
        return base / named
    if source.is_dir():
        return source / LABELLING_LOG
    is_usual = source.name == EXPERIMENT_FILE
    return source.with_name(LABELLING_LOG if is_usual else f"{source.stem}.{LABELLING_LOG}")


def _fail_tuning(yaml_file: YamlFile | None, location: Location, problem: str) -> Exception:
    """Name `tune` where it stands for ``weights: tuned``."""
    if location[2:] == ("weights",) and yaml_file is not None and location not in yaml_file.lines:
        location = (*location[:2], "tune")
    return _error(yaml_file, location, problem)


def _default_name(source: Path, has_file: bool) -> str:
    """Return the folder's name for an experiment.yaml; several YAML files in it differ by stem."""
    if has_file and source.stem == Path(EXPERIMENT_FILE).stem:
        return name_from(source.parent.name)
    return name_from(source.name if source.is_dir() else source.stem)


def _open(source: Path, yaml_file: YamlFile | None, config: DatasetConfig) -> Dataset:
    path = config.path
    if yaml_file is not None and config.format != IrDataset.format:
        path = (source.parent / path).resolve()
    try:
        dataset = open_dataset(path, format=config.format, subset=config.subset)
    except UsageError as error:
        if yaml_file is None:
            raise
        key = "subset" if config.subset is not None and path.exists() else "path"
        raise _error(yaml_file, ("dataset", key), str(error)) from error
    if not config.columns:
        return dataset
    try:
        return with_columns(dataset, config.columns)
    except UsageError as error:
        raise _error(yaml_file, ("dataset", "columns"), str(error)) from error


def _check_given_chunks(chunkings: Mapping[str, ChunkingConfig], fail: Fail) -> None:
    for name, chunking in chunkings.items():
        if not chunking.whole_documents:
            raise fail(
                ("dataset", "judge"),
                f"chunk: the judged ids are those of whole documents, but chunking '{name}' cuts "
                f"documents; use strategy none, or judge document or evidence",
            )


def _with_chunking(
    name: str, config: RetrieverConfig, chunkings: list[str], fail: Fail
) -> RetrieverConfig:
    if not isinstance(config, BaseRetriever | ImportedRetriever | ExternalRetriever):
        return config
    if isinstance(config, ExternalRetriever) and config.chunking is None:
        config = config.model_copy(update={"chunking": OWN})
    if config.chunking == OWN and not isinstance(config, BaseRetriever):
        if config.expand is not None:
            problem = "what stands around a chunk is known of our chunkings only; leave it out"
            raise fail(("retrievers", name, "expand"), problem)
        return config
    if config.chunking is None:
        if len(chunkings) > 1:
            raise fail(("retrievers", name), f"needs `chunking`, one of {', '.join(chunkings)}")
        return config.model_copy(update={"chunking": chunkings[0]})
    if config.chunking not in chunkings:
        raise fail(
            ("retrievers", name, "chunking"),
            f"unknown chunking {allowed_names(config.chunking, chunkings)}",
        )
    return config


def _with_filters(config: RetrieverConfig, default: bool) -> RetrieverConfig:
    if not (default and isinstance(config, BaseRetriever) and config.filters is None):
        return config
    return config.model_copy(update={"filters": True})


def _query_sets(
    source: Path, config: ExperimentConfig, retrievers: Mapping[str, RetrieverConfig], fail: Fail
) -> dict[str, QuerySetConfig]:
    """Make the files of query sets absolute; check their prompts, and that each name exists."""
    if ORIGINAL in config.query_sets:
        raise fail(("query_sets", ORIGINAL), "always exists: it has the original queries")
    names = [ORIGINAL, *config.query_sets]
    for name, retriever in retrievers.items():
        if isinstance(retriever, BaseRetriever) and retriever.query_set not in names:
            problem = f"unknown query set {allowed_names(retriever.query_set, names)}"
            raise fail(("retrievers", name, "query_set"), problem)
    return {
        name: _query_set(source.parent, name, query_set, config, fail)
        for name, query_set in config.query_sets.items()
    }


def _query_set(
    base: Path, name: str, config: QuerySetConfig, experiment: ExperimentConfig, fail: Fail
) -> QuerySetConfig:
    given = config.files()
    config = _with_files("query_sets", name, config, base, fail)
    if isinstance(config, PromptedQuerySet):
        check_llm(config.llm, ("query_sets", name), experiment, fail, reads_list=config.reads_list)
        try:
            places = config.prompted().template.places
        except UsageError as error:
            raise fail(("query_sets", name), str(error)) from error
        if "language" in config.model_fields_set and "language" not in places:
            problem = f"the prompt has no place for it; write {{language}} in {given['template']}"
            raise fail(("query_sets", name, "language"), problem)
    return config


def _with_files(section: str, name: str, config: WithFiles, base: Path, fail: Fail) -> WithFiles:
    """Make the files that a block names absolute, and check that they are there."""
    absolute = {option: base / file for option, file in config.files().items()}
    for option, file in absolute.items():
        if not file.is_file():
            raise fail((section, name, option), missing_file(file))
    return config.with_files(absolute)


def _metrics(config: ExperimentConfig, fail: Fail) -> tuple[tuple[str, ...], tuple[Metric, ...]]:
    measures: list[str] = []
    extra: list[Metric] = []
    for number, name in enumerate(config.metrics):
        metric = _metric(name, ("metrics", number), fail)
        if metric.cutoff is not None:
            extra.append(metric)
        elif metric.column not in measures:
            measures.append(metric.column)
    return tuple(measures), tuple(extra)


def _primary(
    config: ExperimentConfig, measures: tuple[str, ...], extra: tuple[Metric, ...], fail: Fail
) -> Metric:
    metric = (
        default_primary(measures, extra, config.top_k)
        if config.primary is None
        else _metric(config.primary, ("primary",), fail)
    )
    try:
        refuse_lower_is_better(str(metric), "the primary metric places the highest first")
    except UsageError as error:
        raise fail(("primary",), str(error)) from error
    if metric.cutoff is None:
        raise fail(("primary",), f"needs a cut-off, such as {metric.column}@{max(config.top_k)}")
    return metric


def _metric(name: str, location: Location, fail: Fail) -> Metric:
    try:
        metric = parse_metric(name)
    except UsageError as error:
        raise fail(location, str(error)) from error
    if metric.measure == "judged":
        raise fail(location, "judged is always in the leaderboard; leave it out")
    return metric
