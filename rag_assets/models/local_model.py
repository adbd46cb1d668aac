"""A model's files if they are on this machine, without asking a hub."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

from rag_assets.errors import ModelUnavailable
from rag_assets.models.hub import cached_snapshot
from rag_assets.models.model_files import ModelFiles, read_model_files
from rag_assets.models.model_names import DEFAULT_MODEL, DEFAULT_PACKAGE, resolve_model
from rag_assets.package_versions import version


def local_model(name: str) -> ModelFiles | None:
    """Return the model that a name stands for here; None where its files would be downloaded.

    The order is that of :func:`rag_assets.models.model_names.resolve_model`.
    """
    try:
        if Path(name).expanduser().is_dir() or (_is_default(name) and _has_package()):
            return resolve_model(name)
        snapshot = cached_snapshot(_full(name))
        return read_model_files(name, snapshot, snapshot.name, "hub") if snapshot else None
    except ModelUnavailable:
        return None


def _full(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _is_default(name: str) -> bool:
    return _full(name) == DEFAULT_MODEL


def _has_package() -> bool:
    try:
        version(DEFAULT_PACKAGE)
    except PackageNotFoundError:
        return False
    return True
