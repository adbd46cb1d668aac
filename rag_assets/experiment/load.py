"""From a path to an :class:`Experiment`: find the YAML, validate it, fill in the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rag_assets.datasets.dataset import Dataset
from rag_assets.datasets.detect import open_dataset
from rag_assets.errors import ConfigError, RagAssetsError, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.experiment.config import (
    CHUNKING_TYPES,
    RETRIEVER_TYPES,
    DatasetConfig,
    ExperimentConfig,
    RetrieverConfig,
    RRFConfig,
)
from rag_assets.experiment.defaults import (
    default_chunkings,
    default_primary,
    default_retrievers,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.names import name_from
from rag_assets.experiment.retriever_graph import check_retrievers
from rag_assets.experiment.yaml_file import YamlFile, read_yaml

EXPERIMENT_FILE = "experiment.yaml"


def load_experiment(path: Path | str) -> Experiment:
    """Load the experiment at ``path``.

    Args:
        path: a folder with an ``experiment.yaml``, such a file itself, or any dataset folder or
            file, which gets the default experiment.

    Raises:
        UsageError: there is nothing at ``path``.
        ConfigError: the YAML is not valid; names file, line and key.
        DataError: the dataset's format is not recognised.
    """
    path = Path(path).absolute()
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    file = _experiment_file(path)
    if file is None:
        config = ExperimentConfig(dataset=DatasetConfig(path=path))
        return _complete(path, None, config)
    yaml_file = read_yaml(file)
    return _complete(file, yaml_file, validate(yaml_file))


def _experiment_file(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix in {".yaml", ".yml"} else None
    file = path / EXPERIMENT_FILE
    return file if file.is_file() else None


def validate(yaml_file: YamlFile) -> ExperimentConfig:
    """Check the data of a YAML file against the shape of an experiment.

    Raises:
        ConfigError: the first problem, with its line and key, and how many there are.
    """
    try:
        return ExperimentConfig.model_validate(yaml_file.data)
    except ValidationError as error:
        problems = error.errors()
        location = _in_file(yaml_file, problems[0]["loc"])
        text = _problem(dict(problems[0]))
        if len(problems) > 1:
            text += f" (and {len(problems) - 1} more)"
        raise _error(yaml_file, location, text) from error


def _in_file(yaml_file: YamlFile, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Drop from a pydantic location what does not stand in the file, such as union tags."""
    found: tuple[int | str, ...] = ()
    for part in location:
        if (*found, part) in yaml_file.lines:
            found = (*found, part)
    return found


def _problem(error: dict[str, Any]) -> str:
    location, kind = error["loc"], error["type"]
    if kind == "extra_forbidden":
        return f"unknown key {allowed_names(str(location[-1]), _keys_at(location[:-1]))}"
    if kind == "union_tag_invalid":
        tags = RETRIEVER_TYPES if location[0] == "retrievers" else CHUNKING_TYPES
        key = error["ctx"]["discriminator"].strip("'")
        return f"unknown {key} {allowed_names(str(error['ctx']['tag']), tags)}"
    if kind == "union_tag_not_found":
        return f"needs the key {error['ctx']['discriminator']}"
    if kind == "missing":
        return f"needs the key '{location[-1]}'"
    message = error["msg"].removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}; found {error['input']!r}"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    types = {"retrievers": RETRIEVER_TYPES, "chunking": CHUNKING_TYPES}
    match location:
        case (("retrievers" | "chunking") as section, _, tag):
            return list(types[str(section)][str(tag)].model_fields)
        case ("dataset",):
            return list(DatasetConfig.model_fields)
        case _:
            return list(ExperimentConfig.model_fields)


def _error(yaml_file: YamlFile | None, location: tuple[int | str, ...], problem: str) -> Exception:
    if yaml_file is None:
        return ConfigError(problem, key=".".join(map(str, location)) or None)
    return ConfigError(
        problem,
        file=yaml_file.path,
        line=yaml_file.line_of(location),
        key=".".join(map(str, location)) or None,
    )


def _complete(source: Path, yaml_file: YamlFile | None, config: ExperimentConfig) -> Experiment:
    """Fill in the defaults and check what only holds between keys."""

    def fail(location: tuple[int | str, ...], problem: str) -> Exception:
        return _error(yaml_file, location, problem)

    dataset = _open(source, yaml_file, config.dataset)
    chunkings = dict(config.chunking) or default_chunkings(dataset)
    retrievers = dict(config.retrievers) or default_retrievers()
    retrievers = {
        name: _with_chunking(name, retriever, list(chunkings), fail)
        for name, retriever in retrievers.items()
    }
    check_retrievers(retrievers, fail)
    measures, extra = _metrics(config, fail)
    primary = _primary(config, measures, fail)
    baseline = config.baseline or next(iter(retrievers))
    if baseline not in retrievers:
        raise fail(("baseline",), f"unknown retriever {allowed_names(baseline, retrievers)}")
    cutoffs = {m.cutoff for m in (*extra, primary) if m.cutoff is not None}
    listed = tuple(sorted(set(config.top_k)))
    return Experiment(
        name=config.name or _default_name(source, yaml_file is not None),
        source=source,
        has_file=yaml_file is not None,
        dataset=dataset,
        judge=config.dataset.judge or dataset.default_judge,
        chunkings=chunkings,
        retrievers=retrievers,
        top_k=tuple(sorted({*listed, *cutoffs})),
        listed_top_k=listed,
        metrics=measures,
        extra_metrics=extra,
        primary=primary,
        baseline=baseline,
    )


def _default_name(source: Path, has_file: bool) -> str:
    if has_file:
        return name_from(source.parent.name)
    return name_from(source.name if source.is_dir() else source.stem)


def _open(source: Path, yaml_file: YamlFile | None, config: DatasetConfig) -> Dataset:
    root = source.parent if yaml_file is not None else source
    path = (root / config.path).resolve() if yaml_file is not None else config.path
    try:
        return open_dataset(path, format=config.format, subset=config.subset)
    except UsageError as error:
        if yaml_file is None:
            raise
        raise _error(yaml_file, ("dataset", "path"), str(error)) from error
    except RagAssetsError:
        raise


def _with_chunking(
    name: str, config: RetrieverConfig, chunkings: list[str], fail: Any
) -> RetrieverConfig:
    if isinstance(config, RRFConfig):
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


def _metrics(config: ExperimentConfig, fail: Any) -> tuple[tuple[str, ...], tuple[Metric, ...]]:
    measures: list[str] = []
    extra: list[Metric] = []
    for number, name in enumerate(config.metrics):
        try:
            metric = parse_metric(name)
        except UsageError as error:
            raise fail(("metrics", number), str(error)) from error
        if metric.cutoff is not None:
            extra.append(metric)
        elif metric.measure not in measures:
            measures.append(metric.measure)
    return tuple(measures), tuple(extra)


def _primary(config: ExperimentConfig, measures: tuple[str, ...], fail: Any) -> Metric:
    if config.primary is None:
        return default_primary(measures or config.metrics, config.top_k)
    try:
        metric = parse_metric(config.primary)
    except UsageError as error:
        raise fail(("primary",), str(error)) from error
    if metric.cutoff is None:
        raise fail(("primary",), f"needs a cut-off, such as {metric.measure}@{max(config.top_k)}")
    return metric
