"""Models from a hub: the local cache first, else a download of data files only."""

from __future__ import annotations

import logging
from pathlib import Path

from rag_assets.errors import ModelUnavailable
from rag_assets.models.loading import quiet_hub
from rag_assets.models.model_files import (
    SLOW_TOKENIZER_FILES,
    TOKENIZER_FILE,
    is_complete,
)
from rag_assets.servers.secrets import Secrets

DATA_FILES = (
    "modules.json",
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "chat_template.jinja",
    "artifact.metadata",  # of Stanford's ColBERT: how it was trained, as JSON
    TOKENIZER_FILE,
    *SLOW_TOKENIZER_FILES,
    "model.safetensors.index.json",
    "*.safetensors",
)
"""What is downloaded, in any folder: configuration, weights, vocabulary; no code, no pickle."""

OTHER_BACKENDS = ("onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*")
NOT_CACHED = "it is not, or not completely, in the local cache"
CONNECT_SECONDS = 2.0
"""How long the hub may take to answer before it counts as unreachable (asked twice)."""

_WANTED = [*DATA_FILES, *(f"*/{name}" for name in DATA_FILES)]
_UNWANTED = list(OTHER_BACKENDS)

_log = logging.getLogger(__name__)


def hub_snapshot(name: str) -> Path:
    """Return the folder of a model of the hub.

    A complete snapshot in the local cache is used as it is, without asking the hub: a model does
    not change by itself. The name of the folder is the commit.

    Raises:
        ModelUnavailable: why it can be had neither from the cache nor from the hub.
    """
    cached = cached_snapshot(name)
    if cached is not None:
        return cached
    _ask_hub(name)
    return _download(name)


def hub_tokenizer(name: str) -> Path:
    """Return the ``tokenizer.json`` of a model of the hub, without any other of its files.

    The local cache comes first, as for a whole model.

    Raises:
        ModelUnavailable: why it can be had neither from the cache nor from the hub.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, TOKENIZER_FILE, local_files_only=True))
    except HFValidationError as error:
        raise ModelUnavailable(
            "it is neither a file, nor a folder, nor a name that the hub could have"
        ) from error
    except LocalEntryNotFoundError:
        pass
    _log.info("downloading the tokenizer of %s", name)
    try:
        with quiet_hub():
            return Path(hf_hub_download(name, TOKENIZER_FILE, etag_timeout=CONNECT_SECONDS))
    except _failures() as error:
        raise ModelUnavailable(_reason(error)) from None


def cached_snapshot(name: str) -> Path | None:
    """Return the folder of a model in the local cache; None when it is not, or not all, there."""
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(_snapshot(name, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return None
    return folder if is_complete(folder) else None


def _ask_hub(name: str) -> None:
    """Ask for the model's file list first: that answers, or fails, within seconds."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        with quiet_hub():
            files = HfApi().model_info(name, timeout=CONNECT_SECONDS).siblings or []
    except HFValidationError as error:
        raise ModelUnavailable(
            "it is neither a folder nor a name that the hub could have"
        ) from error
    except _failures() as error:
        raise ModelUnavailable(_reason(error)) from None
    if not any(file.rfilename.endswith(".safetensors") for file in files):
        raise ModelUnavailable("the hub has it without safetensors; pickled weights are refused")


def _download(name: str) -> Path:
    _log.info("downloading model %s", name)
    try:
        with quiet_hub():
            folder = _snapshot(name, local_files_only=False)
    except _failures() as error:
        raise ModelUnavailable(_reason(error)) from None
    return Path(folder)


def _snapshot(name: str, *, local_files_only: bool) -> str:
    from huggingface_hub import snapshot_download

    return snapshot_download(
        name,
        local_files_only=local_files_only,
        allow_patterns=_WANTED,
        ignore_patterns=_UNWANTED,
    )


def _failures() -> tuple[type[Exception], ...]:
    """Return what the hub client raises; its HTTP library, and so the base, differs by version."""
    from huggingface_hub.errors import HfHubHTTPError

    # The last three are of an answer that is no JSON, or nested without end.
    odd = (ValueError, TypeError, RecursionError)
    return (OSError, *odd, *(b for b in HfHubHTTPError.__bases__ if issubclass(b, Exception)))


def _reason(error: BaseException) -> str:
    from huggingface_hub import get_token
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    if isinstance(error, OfflineModeIsEnabled):
        return f"{NOT_CACHED}, and HF_HUB_OFFLINE forbids to ask the hub"
    if isinstance(error, GatedRepoError):
        return f"the hub {ENDPOINT} gives it only to accounts that accepted its terms"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub {ENDPOINT} has no such public model"
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    what = Secrets([get_token() or ""]).line(first)
    if isinstance(error, HfHubHTTPError):
        return f"the hub {ENDPOINT} refused: {what}"
    return f"{NOT_CACHED}, and the hub {ENDPOINT} cannot be reached ({what})"
