"""The rule for names of experiments, chunkings and retrievers.

They become partition keys, folder names and column values, so the rule is narrow.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 100
"""Of a name: a file system takes 255 bytes of a file's, which has more in it."""

NAME_RULE = "lower-case letters, digits, '.', '_' and '-', the first a letter or a digit, no '..'"

RESERVED = frozenset(
    {"cache", "code_versions", "dagster", "locks", "measurements", "objects", "remote"}
)
"""Names of folders of a store and of its state, which no experiment has."""

_NAME = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9_.-]*")


def checked_name(name: str) -> str:
    """Return ``name``.

    Raises:
        ValueError: it breaks the rule.
    """
    if len(name) > MAX_CHARACTERS:
        raise ValueError(f"{name[:20]!r}... has {len(name)} characters; allowed: {MAX_CHARACTERS}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name; allowed: {NAME_RULE}")
    return name


def checked_experiment_name(name: str) -> str:
    """Return ``name``.

    Raises:
        ValueError: it breaks the rule, or is that of another folder of the store.
    """
    if name in RESERVED:
        raise ValueError(f"{name!r} is the name of a folder of the store; allowed: any other name")
    return checked_name(name)


def name_from(text: str) -> str:
    """Return the name nearest to a folder or file name (``My Data`` becomes ``my-data``)."""
    lowered = re.sub(r"[^a-z0-9_.-]+", "-", text.lower())
    name = re.sub(r"\.{2,}", ".", lowered).strip("-._")[:MAX_CHARACTERS]
    return f"{name}-data" if name in RESERVED else name or "experiment"
