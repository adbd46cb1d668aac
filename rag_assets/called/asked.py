"""What every search and every answer of the user's own has in common: how it is asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.called.hits import Rejected
from rag_assets.options import Number, Options, Role
from rag_assets.servers.client import Outage
from rag_assets.servers.failures import ServerFailure

Result = TypeVar("Result")

ALWAYS = "always"
"""The revision of what is asked again in each evaluation."""


class Connection(Protocol):
    """A server, a database or code that several threads may ask at once."""

    def ask(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        """Return an answer, or a Rejected, and the seconds until it came; or raise ServerFailure.

        Args:
            values: what is asked: of a search ``query``, ``vector`` and ``k``.
        """

    def line(self, reason: str) -> str:
        """Return why there is no result on one short line without a credential."""

    def close(self) -> None:
        """Close the connections."""


class Asker:
    """Asks one question after the other, in any thread; after an outage none is asked any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._outage = connection, Outage()

    def ask(self, values: Mapping[str, Any], read: Callable[[Any], Result]) -> tuple[Result, float]:
        """Return what ``read`` makes of an answer, and the seconds until it came.

        Raises:
            Rejected: why there is none, on one line without a credential.
        """
        if self._outage.reason is not None:
            raise Rejected(f"not asked: {self._outage.reason}")
        try:
            answer, seconds = self._connection.ask(values)
            self._outage.note(None)
            if isinstance(answer, Rejected):
                raise answer
            return read(answer), seconds
        except (ServerFailure, Rejected) as problem:
            if isinstance(problem, ServerFailure):
                self._outage.note(problem)
            reason = self._connection.line(str(problem))
        raise Rejected(reason)  # out here, nothing is its context


class AskedOptions(Options):
    """What it is to ask code or a server of your own.

    What it holds cannot be seen from here, so ``revision`` says it: a text, or ``always``, which
    asks again in each evaluation. ``concurrency`` are asked at once, each for ``timeout`` seconds
    at most.
    """

    runs_code: ClassVar[bool] = False
    """Whether code that the experiment names is run in this process."""
    needs_revision: ClassVar[bool] = True
    """True if its state cannot be derived from files or code."""
    asked: ClassVar[str] = "what is searched"

    revision: Annotated[Annotated[str, Field(min_length=1)] | None, Role.NOTHING] = None
    concurrency: Annotated[int, Field(ge=1, le=256, strict=True), Role.NOTHING] = 1
    timeout: Annotated[Number, Field(gt=0, le=3600), Role.NOTHING] = 60.0

    @model_validator(mode="after")
    def _says_its_revision(self) -> Self:
        if self.needs_revision and self.revision is None:
            raise ValueError(
                f"needs `revision`, because changes of {self.asked} cannot be seen: a text that "
                "you change with it, or always"
            )
        return self

    @abstractmethod
    def asked_as(self) -> Mapping[str, Any]:
        """Return the options that determine the answers, as long as what is asked is the same."""

    @abstractmethod
    def connect(self) -> Connection:
        """Load the code, open the file, or read what connecting needs.

        Raises:
            UsageError: what concerns all questions alike: a module or a variable is missing.
            DataError: the file of a database cannot be opened.
        """

    def describe_for_plan(self) -> Sequence[str]:
        """Return lines: which module and function would be run. Runs nothing."""
        return ()
