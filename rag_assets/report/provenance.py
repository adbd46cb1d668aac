"""What produced the numbers: the command, configurations, models, versions and every digest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.findings import chosen_analyzers
from rag_assets.report.view import Context, View
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import canonical_json

_HASHES = "sha256"


def provenance(view: View) -> Context:
    """Return all of it; a configuration of a cell is shown once a retriever."""
    evaluation = view.result.evaluation
    versions: dict[str, set[str]] = {"rag-assets": {version("rag-assets")}}
    models: dict[str, set[str]] = {}
    configs: dict[str, str] = {}
    for entry, manifest in _manifests(view):
        for name, value in manifest.versions.items():
            target = models if name.endswith(_HASHES) else versions
            target.setdefault(name, set()).add(value)
        for name, value in _model_facts(manifest.config):
            models.setdefault(name, set()).add(value)
        if manifest.config:
            configs.setdefault(_shared(entry), canonical_json(manifest.config))
    return {
        "command": f"rag-assets evaluate {shlex.quote(_place(evaluation.source))}",
        "versions": [(name, sorted(values)) for name, values in sorted(versions.items())],
        "models": [(name, sorted(values)) for name, values in sorted(models.items())],
        "searches": _searches(view),
        "analyzers": chosen_analyzers(view.result),
        "configs": configs,
        "content": evaluation.content,
    }


def _place(source: str) -> str:
    """Return where an experiment lies without the folders of the machine that evaluated it."""
    path = Path(source)
    folder = path.parent.name
    return folder if path.name == "experiment.yaml" and folder else f"{folder}/{path.name}"


def _manifests(view: View) -> Iterator[tuple[SnapshotEntry, Manifest]]:
    """Yield the manifests; of the cells of one retriever, which differ in their cut, the first."""
    seen = set()
    for entry in view.result.evaluation.entries:
        if _shared(entry) not in seen:
            seen.add(_shared(entry))
            manifest = view.result.manifest_of(entry)
            if manifest is not None:
                yield entry, manifest


def _searches(view: View) -> dict[str, list[str]]:
    """Return each search that is not ours: since when its answers are believed, and what else."""
    notes: dict[str, list[str]] = {}
    for asset in ("external_rankings", "external_hits"):
        for entry, manifest in view.result.manifests_of(asset):
            of_search = notes.setdefault(entry.partition["retriever"], [])
            of_search += manifest.facts.get("notes", [])
    return notes


def _shared(entry: SnapshotEntry) -> str:
    return " ".join([entry.asset, *(v for n, v in entry.partition.items() if n != "top_k")])


def _model_facts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what says which model it was: its name, its revision, the hashes of its files."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _model_facts(value)
        elif isinstance(value, str) and (name in ("model", "revision") or name.endswith(_HASHES)):
            yield name, value
