"""What every retriever type is that asks a search which is not ours."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from rag_assets.options import Depth, Number, Options
from rag_assets.retrieval.retriever import BASE, Retriever
from rag_assets.retrieval.workspace import Workspace

Opened = TypeVar("Opened")

UNCHUNKED = "own"
"""In place of a chunking: a search has chunks of its own, which it returns as texts or spans."""

ALWAYS = "always"
"""The revision of a search that is asked again in each evaluation."""


class Hit(NamedTuple):
    """One thing that a search returned, named in one of three ways.

    - ``id``: of a chunk of the retriever's ``chunking``, of its parent, or of a document;
    - ``document_id``, ``start`` and ``end``: characters ``[start, end)`` of a document's text;
    - ``text``, which is looked for in the documents; ``document_id`` or ``source`` (an id, or the
      name or path of a document's file) narrows where.

    ``score`` is for people: the order of the hits is the ranking.
    """

    id: str | None = None
    text: str | None = None
    document_id: str | None = None
    start: int | None = None
    end: int | None = None
    score: float | None = None
    source: str | None = None


class QueryResult(NamedTuple):
    """What a search gave for one query, best first.

    Attributes:
        hits: empty where it found nothing, which is a result.
        seconds: of wall time from the question to the answer; None: not known.
        error: why it failed; its hits are then no ranking, and the query counts as failed.
    """

    hits: Sequence[Hit] = ()
    seconds: float | None = None
    error: str | None = None


class SearchSession:
    """What a search is given: caches and progress, and what it opens once (a pool, a module)."""

    def __init__(self, workspace: Workspace) -> None:
        """Begin with nothing open; use it as a context manager, which closes what was opened."""
        self.workspace = workspace
        self._stack = ExitStack()
        self._opened: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close what was opened, the last first."""
        self._stack.close()
        self._opened.clear()

    def get_or_open(
        self, name: str, open_it: Callable[[], AbstractContextManager[Opened]]
    ) -> Opened:
        """Return what ``open_it`` opens; the next call with this name returns the same.

        It may be called from several threads, and what is opened serves all of them.
        """
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._stack.enter_context(open_it())
            found: Opened = self._opened[name]
            return found


class RevisionFile(Options):
    """A file whose content says which state of the search is asked."""

    file: Path


class RevisionQuery(Options):
    """SQL whose one value says which state of a database is asked; each evaluation asks it."""

    sql: Annotated[str, Field(min_length=1)]


class ExternalRetriever(Retriever, ABC):
    """Options of a retriever that asks a search which is not ours.

    ``chunking`` names the chunks that its ids are of; without it, ids are those of documents, and
    texts and spans are chunks of its own. What the search holds cannot be seen from here, so
    ``revision`` says it: a text, ``{file: path}``, of a database ``{sql: query}``, or ``always``,
    which asks again in each evaluation. As long as it is the same, and the queries are, stored
    answers are believed. ``k`` hits are asked for, or as many as anything reads.
    ``concurrency`` queries are asked at once, each for ``timeout`` seconds at most.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE
    search_options: ClassVar[frozenset[str]] = frozenset(
        {"revision", "concurrency", "timeout", "k"}
    )
    needs_revision: ClassVar[bool] = True
    """True if the state of the search cannot be derived from files or code."""
    answers_sql: ClassVar[bool] = False
    """Whether its revision may be a query."""

    chunking: str | None = None
    revision: Annotated[str, Field(min_length=1)] | RevisionFile | RevisionQuery | None = None
    k: Depth | None = None
    concurrency: Annotated[int, Field(ge=1, le=256, strict=True)] = 1
    timeout: Annotated[Number, Field(gt=0, le=3600)] = 60.0

    @model_validator(mode="after")
    def _says_its_revision(self) -> Self:
        if self.needs_revision and self.revision is None:
            raise ValueError(
                "needs `revision`, since we cannot see what is searched: a text that "
                "you change with it, {file: path}, or always"
            )
        if isinstance(self.revision, RevisionQuery) and not self.answers_sql:
            raise ValueError("revision: {sql: ...} asks a database; this search is not a database")
        return self

    @abstractmethod
    def search(
        self, queries: Sequence[tuple[str, str]], k: int, tools: SearchSession
    ) -> Iterator[QueryResult]:
        """Ask for the best ``k`` hits of each query; runs a user's code, or asks a server.

        Args:
            queries: pairs of id and text; several are asked at once only where ``concurrency``
                says so. Latency is measured with one at a time.
            k: how many hits are wanted.
            tools: what it may use.

        Yields:
            The result of each query, in order. What fails is a result with an ``error``; only what
            concerns all queries alike, such as a module that is not there, is raised.
        """

    @abstractmethod
    def describe_for_plan(self) -> Sequence[str]:
        """Return lines: what would be run or asked (module and function; host). Runs nothing."""

    @property
    def runs_code(self) -> bool:
        """Whether code that the experiment names is run in this process."""
        return False

    @property
    def asks_revision(self) -> bool:
        """Whether each evaluation asks for the revision, by :meth:`current_revision`."""
        return self.revision == ALWAYS or isinstance(self.revision, RevisionQuery)

    def current_revision(self, tools: SearchSession) -> str:
        """Return the revision as it is now; called by an evaluation, never by what only looks.

        Args:
            tools: what it may use.
        """
        return datetime.now(UTC).isoformat(timespec="microseconds")

    def files(self) -> Mapping[str, Path]:
        """Return the files that it names, that of the revision too."""
        own, revision = super().files(), self.revision
        return {**own, "revision": revision.file} if isinstance(revision, RevisionFile) else own

    def with_files(self, files: Mapping[str, Path]) -> Self:
        """Return the options with other paths to files."""
        rest = {option: file for option, file in files.items() if option != "revision"}
        found = super().with_files(rest)
        if not isinstance(self.revision, RevisionFile):
            return found
        return found.model_copy(update={"revision": RevisionFile(file=files["revision"])})

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found."""
        return self.described(exclude=self.search_options)
