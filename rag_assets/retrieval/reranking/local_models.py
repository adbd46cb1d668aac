"""From the name of a reranking model to its files: a folder, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.models.hub import hub_snapshot
from rag_assets.models.model_config import config_sha256, declared_max_seq_length
from rag_assets.models.model_files import ModelFiles, read_json, read_model_files, sha256
from rag_assets.models.quiet import import_model_libraries

Loaded = TypeVar("Loaded")

_loaded: set[tuple[str, Path, str]] = set()


def resolve_reranking_model(name: str, kind: str) -> ModelFiles:
    """Return the files of a model: an existing folder, the local cache of the hub, or the hub.

    Args:
        name: a folder, or a name at the hub.
        kind: what it must be, for the error: ``cross-encoder``.

    Raises:
        ModelUnavailable: neither; one line that says why and what to do.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return read_model_files(name, folder.resolve(), "", "folder")
    if name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"{kind} folder '{name}' does not exist; give an existing one")
    try:
        snapshot = hub_snapshot(name)
        return read_model_files(name, snapshot, snapshot.name, "hub")
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"{kind} '{name}' is not available: {error}; do one of: connect this machine to the "
            "hub once; give the path of a folder with config.json, model.safetensors and "
            "tokenizer.json"
        ) from error


def described_model(files: ModelFiles, max_length: int | None) -> dict[str, Any]:
    """Return what of a model's files determines a score, without loading it.

    Args:
        files: the model's.
        max_length: after how many tokens a pair is cut; None takes what the model declares.

    Raises:
        UsageError: see :func:`token_limit`.
    """
    return {
        "weights_sha256": files.weights_sha256,
        "tokenizer_sha256": files.tokenizer_sha256,
        "config_sha256": config_sha256(files.path),
        "prompts_sha256": {file.name: sha256(file) for file in _prompt_files(files.path)},
        "max_length": token_limit(files.path, max_length),
        "precision": "float32",
    }


def token_limit(folder: Path, asked: int | None) -> int | None:
    """Return after how many tokens a pair is cut; None where nothing says it.

    Raises:
        UsageError: more are asked for than the model has positions.
    """
    config = read_json(folder / "config.json")
    sizes = config if isinstance(config, Mapping) else {}
    named = [sizes.get("max_position_embeddings"), sizes.get("n_positions")]
    positions = min((int(size) for size in named if size), default=None)
    if asked is not None:
        if positions is not None and asked > positions:
            raise UsageError(f"max_length is {asked}; the model in {folder} has {positions}")
        return asked
    limits = [limit for limit in (declared_max_seq_length(folder), positions) if limit]
    return min(limits, default=None)


def _prompt_files(folder: Path) -> list[Path]:
    """Return the files, of those that a folder has, which say what is put around a pair."""
    named = [folder / "config_sentence_transformers.json", *sorted(folder.glob("*.jinja"))]
    return [file for file in named if file.is_file()]


def load_model(files: ModelFiles, kind: str, load: Callable[[], Loaded]) -> Loaded:
    """Return what ``load`` gives.

    Raises:
        ModelUnavailable: it fails; one line.
    """
    from safetensors import SafetensorError

    failures = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)
    try:
        import_model_libraries()
        found = load()
    except failures as error:
        what = " ".join(str(error).split())[:300]
        raise ModelUnavailable(
            f"{kind} '{files.name}' in {files.path} cannot be loaded: {what}"
        ) from error
    _loaded.add((kind, files.path, files.weights_sha256))
    return found


def is_loaded(files: ModelFiles, kind: str) -> bool:
    """Return whether the model was loaded in this process."""
    return (kind, files.path, files.weights_sha256) in _loaded
