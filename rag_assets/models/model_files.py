"""The files of a model's folder: which count, what they hash to, and what its JSON files declare.

None is a pickle. What is read from a folder is kept in this process while no file in it changes:
recipes describe a model dozens of times, and looking at its files' states takes a hundredth of
reading them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Never, TypeVar, TypeVarTuple

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

Rest = TypeVarTuple("Rest")
Result = TypeVar("Result")

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


def kept_while_unchanged(
    read: Callable[[Path, *Rest], Result],
) -> Callable[[Path, *Rest], Result]:
    """Keep what a function reads from a folder while no file below it is changed, added or removed.

    Its other arguments are hashable, and what it returns is not changed by anyone. What it raises
    is not kept. The state is looked at first: what changes while it reads is read the next time.
    """
    plain: Callable[..., Result] = read
    kept = lru_cache(lambda folder, _, *args: plain(folder, *args))

    @wraps(read)
    def remembered(folder: Path, /, *args: *Rest, **_: Never) -> Result:
        below = (
            f"{top}/{name}"
            for top, subfolders, files in os.walk(folder)
            for name in (*subfolders, *files)
        )
        result: Result = kept(folder, tuple(sorted(map(_state_below, below))), *args)
        return result

    return remembered


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


@kept_while_unchanged
def model_sha256(folder: Path) -> str:
    """Return the hash of all files that make a model.

    Raises:
        ModelUnavailable: as in :func:`read_model_files`.
    """
    parts = module_folders(folder)
    has_weights = [any(part.glob("*.safetensors")) for part in parts]
    for part, has_some in zip(parts, has_weights, strict=True):
        pickles = sorted(file.name for one in PICKLED_WEIGHTS for file in part.glob(one))
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


@kept_while_unchanged
def declared_prompt(folder: Path, kind: str) -> str:
    """Return the prompt that the model declares for ``query`` or ``document``, else empty."""
    config = json_object(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    for name in (*PROMPT_NAMES[kind], config.get("default_prompt_name")):
        if prompts.get(name) is not None:
            return str(prompts[name])
    return ""


@kept_while_unchanged
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


@kept_while_unchanged
def has_tasks(folder: Path) -> bool:
    """Return whether the model embeds queries and documents by different modules."""
    types = [str(part.get("type", "")) for part in modules_of(folder)]
    return any(name.endswith((".Router", ".Asym")) for name in types)
