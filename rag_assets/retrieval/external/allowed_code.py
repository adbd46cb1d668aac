"""Whether code that an experiment names may be run: who runs it must be who wrote it, or say so.

An experiment on one's own disk is one's own. That of a pull request from a fork is somebody
else's, and the machine that checks it has secrets: there nothing is run unless it is allowed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from rag_assets.errors import UsageError

ALLOW_CODE = "RAG_ASSETS_ALLOW_CODE"
"""Environment variable: 1 allows it, as ``--allow-code`` does."""


def require_allowed(
    source: Path, environment: Mapping[str, str] = os.environ, *, allowed: bool = False
) -> None:
    """Check that the code of an experiment may be run.

    Args:
        source: of the experiment, for the message.
        environment: the variables of this process.
        allowed: the user allowed it by an option.

    Raises:
        UsageError: it is somebody else's and nobody allowed it.
    """
    if allowed or environment.get(ALLOW_CODE) == "1":
        return
    whose = foreign_origin(environment)
    if whose is not None:
        raise UsageError(
            f"{source}: names code to run, and is of {whose}; read it, then allow it by "
            f"{ALLOW_CODE}=1, or to evaluate by --allow-code"
        )


def foreign_origin(environment: Mapping[str, str]) -> str | None:
    """Return whose the checked-out files are where they are of a fork; None: of nobody else.

    GitHub tells of a pull request by a file (``GITHUB_EVENT_PATH``), GitLab by variables.
    """
    if environment.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        head = _head_of_pull_request(environment.get("GITHUB_EVENT_PATH", ""))
        if head != environment.get("GITHUB_REPOSITORY"):
            return f"a pull request from {head or 'a deleted or unknown repository'}"
    theirs = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
    if theirs and theirs != environment.get("CI_MERGE_REQUEST_PROJECT_ID"):
        path = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", f"project {theirs}")
        return f"a merge request from {path}"
    return None


def _head_of_pull_request(event: str) -> str | None:
    try:
        found = json.loads(Path(event).read_text(encoding="utf-8"))
        return str(found["pull_request"]["head"]["repo"]["full_name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
