"""Another version of the code, without writing it: for tests of what a change computes again.

``tests/code_versions`` changes real source; this stands for it where a process has loaded
the package already.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rag_assets.code_versions.versions import CodeVersions, root_of
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrieval.registry import OWN_TYPES


def change_code(patch: pytest.MonkeyPatch, name: str) -> None:
    """Give all that has a stage or a retriever type among its roots another version."""
    changed = root_of(type(STAGES[name]) if name in STAGES else OWN_TYPES[name])
    plain = CodeVersions.of

    def of(self: CodeVersions, roots: Iterable[str]) -> str:
        given = list(roots)
        version = plain(self, given)
        is_reached = any(root == changed or root.startswith(f"{changed}.") for root in given)
        return f"{version}-changed" if is_reached else version

    patch.setattr(CodeVersions, "of", of)
