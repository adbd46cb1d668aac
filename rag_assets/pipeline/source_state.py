"""What an experiment is made from, at one moment: its files by content, its models by weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_names import local_model
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.canonical import fingerprint


@dataclass(frozen=True)
class SourceState:
    """Two states with one digest give the same evaluation with the same program.

    Attributes:
        digest: of the contents of all files and of the models that are on this machine.
        files: how many files were looked at.
        models: the models that are on this machine.
    """

    digest: str
    files: int
    models: tuple[str, ...]


def source_state(pipeline: Pipeline) -> SourceState:
    """Look at documents, queries, qrels, the files that the YAML names, the YAML, and models.

    Files that were hashed before and have the same size and time are not read again.

    Raises:
        DataError: a file cannot be read.
    """
    experiment = pipeline.experiment
    named = list(_named_files(experiment))
    models = {name: model for name in _models(experiment) if (model := local_model(name))}
    digest = fingerprint(
        {
            "sources": dict(pipeline.source_digests),
            "files": [pipeline.file_digest(file) for file in named],
            "models": {
                name: [model.revision, model.weights_sha256, model.tokenizer_sha256]
                for name, model in models.items()
            },
        }
    )
    dataset = experiment.dataset
    listed = (dataset.document_files(), dataset.query_files(), dataset.qrels_files())
    files = {*named, *(file for part in listed for file in part)}
    return SourceState(digest, len(files), tuple(models))


def _named_files(experiment: Experiment) -> Iterator[Path]:
    """Yield the YAML and the files that it names besides the dataset."""
    if experiment.has_file:
        yield experiment.source
    for retriever in experiment.retrievers.values():
        files: Mapping[str, Path] = retriever.files()
        yield from files.values()
    for query_set in experiment.query_sets.values():
        yield from query_set.files().values()


def _models(experiment: Experiment) -> list[str]:
    """Return the names of models of retrievers and chunkings, each once."""
    options = [*experiment.retrievers.values(), *experiment.chunkings.values()]
    return sorted({name for one in options if (name := getattr(one, "model", None))})
