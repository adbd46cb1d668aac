"""A model's folder: which files count, what they hash to, what they declare; and the model, loaded.

None is a pickle. A model is loaded once a process, in fp32; no code that comes with it is run. The
model libraries write no bars and warnings, only while we call them. What they log is left alone
where this package's own debug lines are wanted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rag_assets.errors import ModelUnavailable
from rag_assets.store.canonical import fingerprint

TOKENIZER_FILE = "tokenizer.json"

SLOW_TOKENIZER_FILES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)

DATA_FILES = (
    "modules.json",
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "*.jinja",
    "artifact.metadata",  # of Stanford's ColBERT: how it was trained, as JSON
    TOKENIZER_FILE,
    *SLOW_TOKENIZER_FILES,
    "model.safetensors.index.json",
    "*.safetensors",
)
"""What makes a model, in any of its folders: configuration, weights, vocabulary; no code, no
pickle. It is what is downloaded, and what is hashed."""

OTHER_BACKENDS = ("onnx", "openvino")
"""Folders with the same model for other libraries."""

PICKLED_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names under which a model declares its prompt, first one first."""

State = tuple[str, int, int, int]
"""Path, size, mtime and inode of a file or folder."""


def state_of(file: str | Path) -> State:
    """Return what differs when a file was changed or replaced; a link stands for its file."""
    try:
        status = os.stat(file)  # noqa: PTH116 (a path takes as long as the call)
    except FileNotFoundError:  # a link to nothing
        status = os.lstat(file)
    return str(file), status.st_size, status.st_mtime_ns, status.st_ino


def _state_below(file: str) -> State:
    try:
        return state_of(file)
    except OSError:  # a loop of links, no permission, or gone since it was listed
        return file, -1, -1, -1


def states_below(folder: Path) -> tuple[State, ...]:
    """Return what differs when a file below a folder is changed, replaced, added or removed."""
    below = (
        f"{top}/{name}"
        for top, subfolders, files in os.walk(folder)
        for name in (*subfolders, *files)
    )
    return tuple(sorted(map(_state_below, below)))


@dataclass(frozen=True)
class ModelFiles:
    """A model that is on disk.

    Attributes:
        name: the name that was asked for.
        path: the folder with the model's files.
        revision: commit at the hub, or version of the package; empty for a plain folder.
        sha256: of the names and contents of all files that make the model.
        source: ``folder``, ``package`` or ``hub``.
    """

    name: str
    path: Path
    revision: str
    sha256: str
    source: str


def read_model_files(name: str, folder: Path, revision: str, source: str) -> ModelFiles:
    """Return the model in ``folder``, with its hash.

    Raises:
        ModelUnavailable: the folder is not a model's, lacks safetensors weights or a tokenizer, or
            holds a part of the model as a pickle only.
    """
    return ModelFiles(name, folder, revision, model_sha256(folder), source)


def model_sha256(folder: Path) -> str:
    """Return the hash of all files that make a model, remembered while no file below is changed.

    Raises:
        ModelUnavailable: as in :func:`read_model_files`.
    """
    return _model_sha256(folder, states_below(folder))


@lru_cache
def _model_sha256(folder: Path, _: tuple[State, ...]) -> str:
    """Hash; the state was looked at first, so what changes meanwhile is read the next time."""
    parts = module_folders(folder)
    has_weights = [any(part.glob("*.safetensors")) for part in parts]
    for part, has_some in zip(parts, has_weights, strict=True):
        pickles = sorted(file.name for pattern in PICKLED_WEIGHTS for file in part.glob(pattern))
        if pickles and not has_some:
            raise ModelUnavailable(
                f"{part} holds its weights as a pickle only ({pickles[0]}), which can run code; "
                "convert it to model.safetensors"
            )
    if not any(has_weights):
        raise ModelUnavailable(
            f"{folder} holds no model: there is no *.safetensors file; give the folder that has "
            "modules.json or config.json, and model.safetensors"
        )
    vocabularies = (TOKENIZER_FILE, *SLOW_TOKENIZER_FILES)
    if not any((part / name).is_file() for part in (*parts, folder) for name in vocabularies):
        raise ModelUnavailable(
            f"{folder} holds no tokenizer: there is no {TOKENIZER_FILE} and none of "
            f"{', '.join(SLOW_TOKENIZER_FILES)}"
        )
    names = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return fingerprint(
        {
            name.as_posix(): sha256(folder / name)
            for name in names
            if any(fnmatch(name.name, pattern) for pattern in DATA_FILES)
            and not set(name.parts[:-1]) & set(OTHER_BACKENDS)
        }
    )


def module_folders(folder: Path) -> list[Path]:
    """Return the folders of the modules that ``modules.json`` names; without it ``folder``.

    Raises:
        ModelUnavailable: ``modules.json`` is damaged or names a folder outside the model's.
    """
    parts = [folder / str(part.get("path", "")) for part in modules_of(folder)] or [folder]
    for part in parts:
        if not part.resolve().is_relative_to(folder.resolve()):
            raise ModelUnavailable(f"{folder / 'modules.json'}: path {part} leaves the folder")
    return list(dict.fromkeys(parts))


def modules_of(folder: Path) -> list[Mapping[str, Any]]:
    """Return what ``modules.json`` lists; nothing without such a file.

    Raises:
        ModelUnavailable: it is damaged.
    """
    modules = _json(folder / "modules.json", [])
    if not isinstance(modules, list) or not all(isinstance(part, Mapping) for part in modules):
        raise ModelUnavailable(f"{folder / 'modules.json'}: must be a list of modules")
    return modules


def json_object(file: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file holds; an empty one when there is no such file.

    Raises:
        ModelUnavailable: it holds none.
    """
    content = _json(file, {})
    if not isinstance(content, Mapping):
        raise ModelUnavailable(f"{file}: must be a JSON object")
    return content


def _json(file: Path, absent: object) -> object:
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return absent
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{file}: cannot be read as JSON: {error}") from error
    return content


def tokenizer_file(folder: Path) -> Path | None:
    """Return the ``tokenizer.json`` of a model folder, or None when it has none."""
    files = (part / TOKENIZER_FILE for part in (*module_folders(folder), folder))
    return next((file for file in files if file.is_file()), None)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, remembered in this process while the file is the same."""
    return _sha256(*state_of(file))


@lru_cache(maxsize=1_000)
def _sha256(file: str, *state: int) -> str:
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def declared_prompt(folder: Path, kind: str) -> str:
    """Return the prompt that the model declares for ``query`` or ``document``, else empty."""
    config = json_object(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    for name in (*PROMPT_NAMES[kind], config.get("default_prompt_name")):
        if prompts.get(name) is not None:
            return str(prompts[name])
    return ""


def declared_max_seq_length(folder: Path) -> int | None:
    """Return after how many tokens a text is cut; None when the model declares no limit."""
    first = module_folders(folder)[0]
    for file in sorted(first.glob("sentence_*_config.json")):
        declared = json_object(file).get("max_seq_length")
        if declared is not None:
            return int(declared)
    limits = (
        json_object(first / "tokenizer_config.json").get("model_max_length"),
        json_object(first / "config.json").get("max_position_embeddings"),
    )
    # Without a limit of its own a tokenizer declares 1e30.
    return min((int(limit) for limit in limits if limit and 0 < limit < 1e9), default=None)


def has_tasks(folder: Path) -> bool:
    """Return whether the model embeds queries and documents by different modules."""
    types = [str(part.get("type", "")) for part in modules_of(folder)]
    return any(name.endswith((".Router", ".Asym")) for name in types)


Loaded = TypeVar("Loaded")

PACKAGES = ("sentence-transformers", "torch", "transformers")
"""What a model is loaded and run by."""

NOISY = ("transformers", "sentence_transformers", "huggingface_hub")

MAX_LOADED = 2
"""Models that stay in memory: an experiment that compares two uses each several times."""

_loaded: set[tuple[Path, str, str]] = set()


def import_model_libraries() -> None:
    """Import torch, transformers and sentence-transformers, and let none of them write."""
    import torch  # noqa: F401

    with quiet_models():
        import sentence_transformers  # noqa: F401


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence the hub client inside the block."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    has_bars = not are_progress_bars_disabled()
    with _quiet_python(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also the hint that a variable overrules the switch below
        disable_progress_bars()
        try:
            yield
        finally:
            if has_bars:
                enable_progress_bars()


@contextmanager
def quiet_models() -> Iterator[None]:
    """Silence sentence-transformers, transformers and the hub client inside the block."""
    from transformers.utils import logging as transformers_logging

    has_bars = transformers_logging.is_progress_bar_enabled()
    with quiet_hub():
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            if has_bars:
                transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def _quiet_python() -> Iterator[None]:
    is_debugging = logging.getLogger("rag_assets").isEnabledFor(logging.DEBUG)
    levels = {} if is_debugging else {name: logging.getLogger(name).level for name in NOISY}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def default_device() -> str:
    """Return ``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def loaded(kind: str, files: ModelFiles, load: Callable[[], Loaded]) -> Loaded:
    """Return what ``load`` gives, called when the libraries are imported.

    Raises:
        ModelUnavailable: a model of this ``kind``, such as ``cross-encoder``, cannot be loaded.
    """
    from safetensors import SafetensorError

    failures = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)
    try:
        import_model_libraries()
        with quiet_models():
            return load()
    except failures as error:
        what = " ".join(str(error).split())[:300]
        raise ModelUnavailable(
            f"{kind} '{files.name}' in {files.path} cannot be loaded: {what}"
        ) from error


def load_model(
    files: ModelFiles, device: str | None = None, library: str = "SentenceTransformer"
) -> Any:  # noqa: ANN401 (a class of sentence-transformers)
    """Return a model of sentence-transformers, loaded by its class ``library``.

    Raises:
        ModelUnavailable: it cannot be loaded.
    """
    path, digest = files.path, files.sha256
    return loaded("model", files, lambda: _load(path, digest, device or default_device(), library))


def is_loaded(files: ModelFiles, device: str | None = None) -> bool:
    """Return whether the model is in memory; torch is not loaded to say that none is."""
    return bool(_loaded) and (files.path, files.sha256, device or default_device()) in _loaded


def forget_models() -> None:
    """Drop all models from memory."""
    _load.cache_clear()
    _loaded.clear()


@lru_cache(maxsize=MAX_LOADED)
def _load(path: Path, sha256: str, device: str, library: str) -> Any:  # noqa: ANN401
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import sentence_transformers
    import torch

    model = getattr(sentence_transformers, library)(
        str(path),
        device=device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"dtype": torch.float32, "use_safetensors": True},
    )
    _loaded.add((path, sha256, device))
    return model
