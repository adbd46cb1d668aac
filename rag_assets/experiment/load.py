"""From a path to an :class:`Experiment`: find the YAML, validate it, fill in the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_names import needs_size, parse_metric
from rag_assets.experiment.completion import Blocks
from rag_assets.experiment.config import (
    DatasetConfig,
    ExperimentConfig,
    FloorConfig,
    RetrieverConfig,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.grids import expand_grids
from rag_assets.experiment.names import name_from
from rag_assets.experiment.retriever_rules import (
    check_known,
    check_tuning,
    naming,
    tuned_retrievers,
)
from rag_assets.experiment.yaml_file import YamlFile, dotted, first_problem, read_yaml
from rag_assets.input_files import unusable
from rag_assets.labels.questions import SOURCE_DOCUMENT
from rag_assets.labels.sampling.label_sample import is_wholly_graded
from rag_assets.options import KeyProblem, Location
from rag_assets.plain_text import shortened
from rag_assets.plugins import Members
from rag_assets.query_sets.query_set import QUERY_SET_TYPES
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.formats import (
    ANSWER_LABELS,
    FORMATS,
    LABELLING_LOG,
    PASSAGE_LABELS,
    open_dataset,
    with_columns,
)
from rag_assets.sources.tables import KEEP

EXPERIMENT_FILE = "experiment.yaml"
SOURCE = "source"
"""Folder of the data in the experiment's folder of a store, where the data is given in code too."""

YAML_SUFFIXES = (".yaml", ".yml")

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
    return _experiment(file, yaml_file.data, yaml_file)


def default_experiment(path: Path) -> Experiment:
    """Return what is evaluated where there is no YAML file; ``path`` is the data, and absolute.

    Raises:
        UsageError: there is nothing at ``path``.
        DataError: the dataset's format is not recognised.
    """
    return _experiment(path, {"dataset": {"path": path}})


def _experiment_file(path: Path) -> Path | None:
    """Return the YAML file; None where there is none, and the path is that of the data."""
    if path.suffix in YAML_SUFFIXES and not path.is_dir():
        return path
    file = path / EXPERIMENT_FILE
    # A FIFO, or a link to nothing, is told by who reads it.
    is_there = path.is_dir() and os.path.lexists(file) and not file.is_dir()
    return file if is_there else None


def experiment_in_code(
    source: Path,
    data: Mapping[str, Any],
    retrievers: Mapping[str, RetrieverConfig | Mapping[str, Any]],
) -> Experiment:
    """Return an experiment whose configuration is given in code; errors name keys alone.

    Args:
        source: folder of the data.
        data: what would stand in an ``experiment.yaml``, without retrievers.
        retrievers: as options, or as their blocks; the first is the baseline unless ``data`` names
            one.

    Raises:
        ConfigError: the data is not valid; names the key.
    """
    dataset = data.get("dataset", {})
    if isinstance(dataset, Mapping):
        dataset = {**dataset, "path": source}
    return _experiment(source, {**data, "dataset": dataset, "retrievers": retrievers})


def floors_of(given: object) -> tuple[FloorConfig, ...]:
    """Return floors that are given in code, as an ``experiment.yaml`` has them.

    Raises:
        ConfigError: they are not valid; names the key.
    """
    data = {"floors": given}
    try:
        return ExperimentConfig.model_validate(data).floors
    except ValidationError as error:
        location, problem = first_problem(error, data)
        raise ConfigError(problem, key=dotted(location)) from error


def _experiment(
    source: Path, data: Mapping[str, Any], yaml_file: YamlFile | None = None
) -> Experiment:
    """Validate what was read, fill in the defaults and check what only holds between keys.

    Args:
        source: the YAML file; without one the folder or file of the data.
        data: what the file holds, or would hold.
        yaml_file: where it stands, for the errors.

    Raises:
        ConfigError: the first problem, with file and line where they are known, and its key.
        DataError: the dataset's format is not recognised.
    """
    for kind in KINDS:
        kind.check()
    try:
        config = ExperimentConfig.model_validate(data)
        return _complete(source, config, has_file=yaml_file is not None)
    except (KeyProblem, ValidationError) as error:
        location, problem = (
            (error.location, str(error))
            if isinstance(error, KeyProblem)
            else first_problem(error, data)
        )
        if yaml_file is None:
            raise ConfigError(problem, key=dotted(location)) from error
        raise yaml_file.error(location, problem) from error


def _complete(source: Path, config: ExperimentConfig, *, has_file: bool) -> Experiment:
    dataset = _open(source, config.dataset, has_file=has_file)
    base = source.parent if has_file else source
    blocks = Blocks(config, dataset, base)
    retrievers = blocks.retrievers
    query_sets = {name: blocks.query_set(name, block) for name, block in config.query_sets.items()}
    chunkings = {n: blocks.chunking(n, block) for n, block in blocks.given_chunkings.items()}
    retrievers = {n: blocks.with_files(block, "retrievers", n) for n, block in retrievers.items()}
    questions = config.questions and blocks.questions(config.questions)
    log = _log(source, base, config.judgments_log)
    nuggets = base / (config.nuggets or "nuggets.jsonl")
    has_graded_pool = questions is None and is_wholly_graded(log)
    has_labels = dataset.has_qrels or questions is not None or has_graded_pool
    blocks.check_judged_unit()
    metrics = blocks.metrics()
    extra = tuple(metric for metric in metrics if metric.cutoff is not None)
    primary = blocks.primary(metrics)
    blocks.check_floors()
    generators = {name: blocks.generator(name, block) for name, block in config.generators.items()}
    answerers = {
        name: blocks.answerer(name, block, has_labels=has_labels)
        for name, block in config.answers.items()
    }
    baseline = config.baseline or next(iter(retrievers))
    check_known("retriever", baseline, retrievers, "baseline")
    for name in config.checks.drift.far_below:
        check_known("retriever", name, retrievers, "checks", "drift", "far_below", name)
    listed = tuple(sorted(set(config.top_k)))
    top_k = tuple(sorted({*listed, *(m.cutoff for m in (*extra, primary) if m.cutoff is not None)}))
    judges = {name: blocks.judge(name, block, max(top_k)) for name, block in config.judges.items()}
    statistics = config.statistics
    if questions and "cluster" not in statistics.model_fields_set:  # of one document: one cluster
        statistics = statistics.model_copy(update={"cluster": f"query.{SOURCE_DOCUMENT}"})
    check_tuning(retrievers, top_k, has_split=config.split is not None, has_labels=has_labels)
    # That of the folder for an experiment.yaml; several YAML files in it differ by stem.
    named = source.parent if has_file and source.stem == Path(EXPERIMENT_FILE).stem else source
    experiment = Experiment(
        config=config,
        name=config.name or name_from(named.name if named.is_dir() else named.stem),
        source=source,
        has_file=has_file,
        dataset=dataset,
        judge=config.dataset.judge or ("evidence" if questions else dataset.default_judge),
        has_qrels=has_labels,
        chunkings=chunkings,
        questions=questions,
        query_sets=query_sets,
        retrievers=retrievers,
        top_k=top_k,
        listed_top_k=listed,
        metrics=tuple(dict.fromkeys(m.column for m in metrics if m.cutoff is None)),
        extra_metrics=extra,
        primary=primary,
        baseline=baseline,
        weight=config.weight,
        statistics=statistics,
        keeps_unknown=config.dataset.unknown_documents == KEEP,
        tuned=tuned_retrievers(retrievers),
        generators=generators,
        answerers=answerers,
        judges=judges,
        answer_labels=base / (config.answer_labels or ANSWER_LABELS) if has_file else None,
        passage_labels=base / (config.passage_labels or PASSAGE_LABELS) if has_file else None,
        judgments_log=log,
        nuggets=nuggets if has_file and (config.nuggets or nuggets.is_file()) else None,
        has_graded_pool=has_graded_pool,
        online=config.online and blocks.with_files(config.online, "online"),
    )
    _check_sizes(experiment)
    return experiment


def _check_sizes(experiment: Experiment) -> None:
    """Refuse a metric over all units where a search does not say how many it has."""
    without = [name for name in experiment.judged_retrievers if experiment.located_of(name)]
    listed: list[tuple[Location, str]] = [(("metrics",), n) for n in experiment.config.metrics]
    for location, name in [*listed, (("primary",), str(experiment.primary))]:
        if without and needs_size(parse_metric(name).measure):
            problem = f"{name} needs the number of units that a retriever can return"
            raise KeyProblem(location, f"{problem}, which is not known of '{without[0]}'")


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


def _open(source: Path, config: DatasetConfig, *, has_file: bool) -> Dataset:
    path = config.path
    if has_file:
        path = (source.parent / path).resolve()
    key = "subset" if config.subset is not None and path.exists() else "path"
    with naming("dataset", key) if has_file else nullcontext():
        dataset = open_dataset(path, format=config.format, subset=config.subset)
    if not config.columns:
        return dataset
    with naming("dataset", "columns"):
        return with_columns(dataset, config.columns)
