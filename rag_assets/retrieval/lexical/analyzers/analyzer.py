"""What an analyzer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Tokens = list[str]


@dataclass(frozen=True)
class Analyzer:
    """A named way to cut texts into the tokens that are indexed and searched for.

    ``distributions`` names the installed packages that have a part in the result, ``extra`` what
    installs them where they do not come with this package.
    """

    name: str
    analyze_all: Callable[[Sequence[str]], list[Tokens]]
    distributions: tuple[str, ...] = ()
    extra: str | None = None
