"""Where an evaluation comes from: who made it, from which configuration, code and packages.

None of it can be read from the artifacts later, so a snapshot keeps it. Keys and passwords are in
none of it: a configuration names the environment variable of a key, and addresses are kept without
user and query.
"""

from __future__ import annotations

import getpass
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import Origin

PACKAGES = ("rag-assets", "dagster", "duckdb", "numpy", "pyarrow", "scipy")
"""What computes or stores the numbers of every experiment; engines are in their own artifacts."""

GIT_SECONDS = 5
"""How long git may take before the commit is unknown."""

_ADDRESS = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*://)(?:[^/@]*@)?(?P<place>[^?#]*)", re.I)


def origin_of(experiment: Experiment, code_versions: Mapping[str, str]) -> Origin:
    """Return where an evaluation that ends now comes from."""
    source = experiment.source
    folder = source if source.is_dir() else source.parent
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", ".") if commit else None
    return Origin(
        user=_user(),
        git_commit=commit,
        git_dirty=None if changed is None else bool(changed),
        configuration=configuration_of(experiment),
        code_versions=code_versions,
        packages=_packages(),
    )


def configuration_of(experiment: Experiment) -> Mapping[str, Any]:
    """Return all that an ``experiment.yaml`` says, with defaults, and nothing of this machine.

    The contents of the files that it names are in the digests of the artifacts, so their paths are
    left out: a folder that was moved is the same experiment.
    """
    own = experiment
    found = {
        "judge": own.judge,
        "chunking": {name: _dumped(one) for name, one in own.chunkings.items()},
        "query_sets": {name: _dumped(one, {"path"}) for name, one in own.query_sets.items()},
        "llm": _dumped(own.llm) if own.llm is not None else None,
        **({"llms": {name: _dumped(one) for name, one in own.llms.items()}} if own.llms else {}),
        "retrievers": {
            name: _dumped(one, set(one.file_options)) for name, one in own.retrievers.items()
        },
        "top_k": list(own.top_k),
        "metrics": [*own.metrics, *map(str, own.extra_metrics)],
        "primary": str(own.primary),
        "baseline": own.baseline,
        "split": _dumped(own.split) if own.split is not None else None,
        "weight": own.weight,
        "statistics": _dumped(own.statistics),
        "context_tokenizer": own.context_tokenizer,
    }
    if own.answerers:
        found["generators"] = {
            name: _dumped(one, set(one.file_options)) for name, one in own.generators.items()
        }
        found["answers"] = {name: _dumped(one) for name, one in own.answerers.items()}
        found["answer_metrics"] = _dumped(own.answer_metrics)
    return {name: _without_credentials(value) for name, value in found.items()}


def _dumped(options: BaseModel, exclude: set[str] | None = None) -> dict[str, Any]:
    return options.model_dump(mode="json", exclude=exclude)


def _without_credentials(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Cut user, password and query out of every address."""
    if isinstance(value, Mapping):
        return {name: _without_credentials(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_credentials(one) for one in value]
    address = _ADDRESS.match(value) if isinstance(value, str) else None
    return f"{address['scheme']}{address['place']}" if address else value


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in a container
        return None


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints; None where there is no git, no repository or no commit."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


def _packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a folder that was not installed
            continue
    return found
