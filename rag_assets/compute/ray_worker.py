"""What runs on a node of a Ray cluster: one process that keeps its models between blocks."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from typing import Any

from rag_assets.errors import ModelUnavailable

PACKAGES = (
    "rag-assets",
    "numpy",
    "faiss-cpu",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
)
"""Their versions decide results, so they are the same everywhere."""


class RayWorker:
    """Does any work that the driver sends; models stay in memory as in any other process."""

    def __init__(self) -> None:
        """Know no work yet."""
        self._pickled = b""
        self._work: Callable[..., Any] | None = None

    def versions(self) -> tuple[str, dict[str, str]]:
        """Return the name of the node, and the versions of the packages that decide results."""
        return socket.gethostname(), package_versions()

    def run(self, pickled: bytes, *block: Any) -> Any:  # noqa: ANN401 (whatever is worked on)
        """Return what the work makes of a block; it is unpickled when it is another than before.

        Raises:
            ModelUnavailable: names the node.
        """
        try:
            if self._work is None or pickled != self._pickled:
                self._work, self._pickled = pickle.loads(pickled), pickled
            return self._work(*block)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"on node {socket.gethostname()}: {error}") from error


def package_versions() -> dict[str, str]:
    """Return the versions of those of ``PACKAGES`` that are installed."""
    from importlib.metadata import PackageNotFoundError

    from rag_assets.package_versions import version

    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found
