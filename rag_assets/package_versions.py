"""Versions of packages: recipes name them hundreds of times, a process reads them once."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def version(package: str) -> str:
    """Return the version of an installed package.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    return importlib.metadata.version(package)
