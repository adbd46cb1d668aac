"""What a check is: a question to one partition, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rag_assets.labels.health.findings import ERROR, WARNING
from rag_assets.store.artifacts import Artifact, ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.checks.reads import Reads

MOST_EXAMPLES = 20
"""Problems that a result holds in words; all are counted."""

__all__ = ["ERROR", "WARNING", "Check", "CheckResult", "Found"]


@dataclass(frozen=True)
class Found:
    """What is wrong with a partition, in sentences; nothing: all is well.

    Attributes:
        problems: one sentence each, the gravest first.
        severity: ``error`` or ``warning``; of a check that found nothing it says nothing.
        numbers: what else is worth a curve over time.
    """

    problems: list[str]
    severity: str = ERROR
    numbers: Mapping[str, float] = field(default_factory=dict)
    passes: bool | None = None
    """Whether the check passes; by default: nothing was found."""
    not_checked: str | None = None
    """Why nothing could be looked at: such a check does not pass, warns, and blocks nothing."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """What else people want to see, by its title: Markdown."""


class Check(NamedTuple):
    """One question to every partition of an asset.

    Attributes:
        name: unique for the asset.
        meaning: for people: what holds when it passes.
        find: looks at one partition; None: nobody asked for the check, so it has no result.
        blocking: whether partitions that read one that failed with an error are not computed.
    """

    name: str
    meaning: str
    find: Callable[[Reads, ArtifactKey, Artifact], Found | None]
    blocking: bool = False


@dataclass(frozen=True)
class CheckResult:
    """What one check came to on one partition."""

    check: Check
    key: ArtifactKey
    found: Found

    @property
    def passed(self) -> bool:
        """Whether all is well, as far as it was looked at."""
        if self.found.not_checked is not None:
            return False
        return not self.found.problems if self.found.passes is None else self.found.passes

    @property
    def blocks(self) -> bool:
        """Whether what reads the partition must not be computed from it."""
        return self.check.blocking and not self.passed and self.severity == ERROR

    @property
    def severity(self) -> str:
        """``error`` or ``warning``: how grave it is where it does not pass."""
        return self.found.severity if self.found.not_checked is None else WARNING

    @property
    def summary(self) -> str:
        """One line for people."""
        problems = self.found.problems
        if self.found.not_checked is not None:
            return f"Not checked: {self.found.not_checked}."
        if not problems:
            return self.check.meaning
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0]}{more}"
