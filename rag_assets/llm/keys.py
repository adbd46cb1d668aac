"""Keys of model servers: those that a program gives, before those of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("given_keys", default=MappingProxyType({}))


@contextmanager
def given_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Let models that are opened in a block use these keys.

    Args:
        keys: name of an environment variable -> the key that it would hold.
    """
    token = _GIVEN.set(keys)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def key_of(variable: str) -> str:
    """Return the key that an experiment names by a variable; empty where there is none."""
    return (_GIVEN.get().get(variable) or os.environ.get(variable, "")).strip()
