"""What searches that are not ours return, and the base of every retriever type that asks one.

Functions, servers, databases and files all pass through one check, :func:`hit_of`. Nothing of
LangChain, LlamaIndex or Haystack is imported: their objects are recognised by their attributes.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from operator import index
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.models.encoder import Encoder
from rag_assets.models.model_files import PACKAGES
from rag_assets.options import Depth, Number, Options
from rag_assets.package_versions import version
from rag_assets.plain_text import shortened
from rag_assets.retrieval.base import BASE, Retriever, Role
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace, measured
from rag_assets.servers.client import Outage
from rag_assets.servers.failures import ServerFailure

FORMS = (
    "an id, (id, score), (document_id, start, end), a dict with id, text or document_id, start and "
    "end, or a document of LangChain, LlamaIndex or Haystack"
)
ONE_OF_THREE = "a hit is one of three: `id`; `text`; or `document_id`, `start` and `end`"

MAX_CHARACTERS = 10_000_000
"""Of a returned text: more is no passage, and fills memory with copies."""

_SOURCE_KEYS = ("document_id", "doc_id", "source", "file_path", "path", "file_name", "filename")
"""Keys of a document's metadata that may name where its text is from; the first one counts."""

_START_KEYS = ("start_index", "split_idx_start")
"""Keys with the character at which a text starts, as LangChain and Haystack have them."""


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
    """The outcome of one query, best hit first.

    Attributes:
        hits: empty if the search found nothing, which is a result.
        seconds: wall time from the question to the answer; None: not known.
        error: why it failed; the query then has no ranking and counts as failed.
    """

    hits: Sequence[Hit] = ()
    seconds: float | None = None
    error: str | None = None


class Rejected(Exception):
    """What was returned is no list of hits; the message says what it is, and what is allowed."""


def hits_of(answer: object, k: int, *, as_texts: bool = False) -> list[Hit]:
    """Return the first ``k`` hits of an answer."""
    if isinstance(answer, Mapping) and "documents" in answer:  # of Haystack's `run`
        answer = answer["documents"]
    # One document of pydantic is iterable too: it gives its fields.
    is_one = isinstance(answer, str | bytes | Mapping) or hasattr(type(answer), "model_fields")
    if is_one or not isinstance(answer, Iterable):
        raise Rejected(f"returned {described(answer)}, not a list of hits; a hit is {FORMS}")
    values = enumerate(islice(answer, k), 1)
    return [hit_of(_fields(value, as_texts, rank), rank) for rank, value in values]


def hit_of(fields: Mapping[str, object], rank: int, labels: Mapping[str, str] = {}) -> Hit:
    """Return the hit with these fields, checked; a field that is None is not there."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _KINDS:
            key = shortened(str(name), 80)
            raise Rejected(f"hit {rank} has the key '{key}'; allowed: {', '.join(Hit._fields)}")
        read, kind = _KINDS[name]
        try:
            values |= {} if value is None else {name: read(value)}
        except (TypeError, ValueError, OverflowError):
            reason = f"`{labels.get(name, name)}` is {described(value)}; it must be {kind}"
            raise Rejected(f"hit {rank}: {reason}") from None
    if not is_one_of_three(values):
        missing = [f"`{label}` matches nothing" for n, label in labels.items() if n not in values]
        names = ", ".join(values) or "none of them"
        raise Rejected(f"hit {rank}: {[*missing, f'has only {names}'][0]}; {ONE_OF_THREE}")
    return Hit(**values)


def is_one_of_three(names: Collection[str]) -> bool:
    """Return whether these fields make an id, a text or a span, and only one of them."""
    is_span = {"document_id", "start", "end"} <= set(names) and "text" not in names
    return ["id" in names, "text" in names, is_span].count(True) == 1


def described(value: object) -> str:
    """Return what a value is, in a few words for a message."""
    if isinstance(value, Mapping):
        keys = ", ".join(sorted(map(str, value))[:6])
        return f"an object with the keys {shortened(keys)}" if keys else "an empty object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if value is None or not isinstance(value, str | bool | int | float):
        return "nothing" if value is None else f"{type(value).__name__} {value!r:.80}"
    return shortened(json.dumps(value, ensure_ascii=False), 60)


def _fields(value: object, as_texts: bool, rank: int) -> Mapping[str, object]:
    """Return the fields of a hit in any of :data:`FORMS`."""
    if isinstance(value, Hit):
        return value._asdict()
    if isinstance(value, str):
        return {"text" if as_texts else "id": value}
    if _is_whole(value):
        return {"id": value}
    if isinstance(value, Mapping):
        return {"document_id" if key == "doc_id" else key: field for key, field in value.items()}
    if isinstance(value, tuple | list) and len(value) == 3:
        return dict(zip(("document_id", "start", "end"), value, strict=True))
    if isinstance(value, tuple | list) and len(value) == 2:
        return {**_fields(value[0], as_texts, rank), "score": value[1]}
    if (fields := _fields_of_object(value)) is not None:
        return fields
    raise Rejected(f"hit {rank} is {described(value)}; a hit is {FORMS}")


def _fields_of_object(value: object) -> Mapping[str, object] | None:
    """Return the fields of a framework's document or node: its text without its metadata."""
    node = getattr(value, "node", None) or value  # LlamaIndex's NodeWithScore
    texts = [getattr(node, name, None) for name in ("page_content", "content", "text")]
    if callable(content := getattr(node, "get_content", None)) and not any(texts):
        texts.append(content())
    text = next((text for text in texts if isinstance(text, str)), None)
    if text is None:
        return None
    both = (getattr(node, name, None) for name in ("metadata", "meta"))
    metadata: Mapping[str, Any] = next((m for m in both if isinstance(m, Mapping) and m), {})
    sources = [*(metadata.get(key) for key in _SOURCE_KEYS), getattr(node, "ref_doc_id", None)]
    starts = [getattr(node, "start_char_idx", None), *(metadata.get(key) for key in _START_KEYS)]
    return {
        "text": text,
        "source": next((name for name in sources if isinstance(name, str) and name), None),
        "start": next((start for start in starts if _is_whole(start)), None),
        "score": getattr(value, "score", None),
    }


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _id(value: Any) -> str:  # noqa: ANN401 (whatever a search returns)
    return _text(str(index(value)) if _is_whole(value) else value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise TypeError
    return value.encode("utf-8", "replace").decode()  # half a character becomes a question mark


def _offset(value: Any) -> int:  # noqa: ANN401
    if not _is_whole(value) or not 0 <= index(value) < 2**31:
        raise ValueError
    return index(value)


def _score(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, str | bool) or not math.isfinite(score := float(value)):
        raise ValueError
    return score


_TEXT = (_text, f"a text of at most {MAX_CHARACTERS:,} characters")
_ID = (_id, "a text or a whole number")
_OFFSET = (_offset, "a whole number from 0, below 2**31")
_SCORE = (_score, "a finite number")
_KINDS: Mapping[str, tuple[Callable[[Any], object], str]] = dict(
    zip(Hit._fields, (_ID, _TEXT, _ID, _OFFSET, _OFFSET, _SCORE, _TEXT), strict=True)
)


Search = Callable[[Sequence[str], int], Iterator[QueryResult]]
"""Asks for the best k hits of each text of a query, and yields the results in order.

``concurrency`` queries are asked at once. A query that fails is a result with an ``error``.
"""

ALWAYS = "always"
"""The revision of a search that is asked again in each evaluation."""


class Connection(Protocol):
    """A server, a database or code that several threads may ask at once."""

    def ask(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        """Return an answer and the seconds until it came; raises ServerFailure if there is none.

        Args:
            values: ``query``, ``vector`` and ``k``.
        """

    def line(self, reason: str) -> str:
        """Return why there is no result on one short line without a credential."""

    def close(self) -> None:
        """Close the connections."""


class ExternalRetriever(Retriever, ABC):
    """Options of a retriever that asks a search which is not ours.

    ``chunking`` names the chunks that its ids are of; without it, ids are those of documents, and
    texts and spans are chunks of its own. What the search holds cannot be seen from here, so
    ``revision`` says it: a text, or ``always``, which asks again in each evaluation. As long as it
    is the same, and the queries are, stored answers are believed. ``k`` hits are asked for, or as
    many as anything reads. ``concurrency`` queries are asked at once, each for ``timeout`` seconds
    at most.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE
    runs_code: ClassVar[bool] = False
    """Whether code that the experiment names is run in this process."""
    needs_revision: ClassVar[bool] = True
    """True if the state of the search cannot be derived from files or code."""

    chunking: str | None = None
    revision: Annotated[Annotated[str, Field(min_length=1)] | None, Role.NOTHING] = None
    k: Annotated[Depth | None, Role.NOTHING] = None
    concurrency: Annotated[int, Field(ge=1, le=256, strict=True), Role.NOTHING] = 1
    timeout: Annotated[Number, Field(gt=0, le=3600), Role.NOTHING] = 60.0

    @model_validator(mode="after")
    def _says_its_revision(self) -> Self:
        if self.needs_revision and self.revision is None:
            raise ValueError(
                "needs `revision`, since we cannot see what is searched: a text that "
                "you change with it, or always"
            )
        return self

    @abstractmethod
    def connect(self) -> Connection:
        """Load the code, open the file, or read what connecting needs.

        Raises:
            UsageError: what concerns all queries alike: a module or a variable is missing.
            DataError: the file of a database cannot be opened.
        """

    @abstractmethod
    def read(self, answer: Any, k: int) -> QueryResult:  # noqa: ANN401
        """Return what an answer says; raises Rejected if it is no list of hits."""

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> Sequence[object]:
        """Return the vector of each text, None without an embedding model."""
        return [None] * len(texts)

    @contextmanager
    def opened(self, workspace: Workspace) -> Iterator[Search]:
        """Connect, and return the search; see :meth:`connect` for what it raises."""
        with closing(self.connect()) as connection:
            yield partial(self._search, connection, workspace)

    def _search(
        self, connection: Connection, workspace: Workspace, texts: Sequence[str], k: int
    ) -> Iterator[QueryResult]:
        vectors, outage = self.vectors(texts, workspace), Outage()

        def result(number: int) -> QueryResult:
            if outage.reason is not None:
                return QueryResult(error=f"not asked: {outage.reason}")
            values = {"query": texts[number], "vector": vectors[number], "k": k}
            try:
                answer, seconds = connection.ask(values)
                outage.note(None)
                result = self.read(answer, k)._replace(seconds=seconds)
            except (ServerFailure, Rejected) as problem:
                if isinstance(problem, ServerFailure):
                    outage.note(problem)
                result = QueryResult(error=str(problem))
            return QueryResult(error=connection.line(result.error)) if result.error else result

        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="rag_assets search") as pool:
            yield from pool.map(result, range(len(texts)))

    def describe_for_plan(self) -> Sequence[str]:
        """Return lines: which module and function would be run. Runs nothing."""
        return ()

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found."""
        return self.described()


class QueryEmbedding(Options):
    """The model that the vectors of a search are of; ``query_prompt`` is put before every query.

    With ``normalise`` vectors have length 1, else the model's own.
    """

    model: str = Field(min_length=1)
    query_prompt: str | None = None
    normalise: Annotated[bool, Field(strict=True)] = True

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> list[list[float]]:
        """Return the vector of each text; known ones come from the cache.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        encoder = self.encoder(workspace)
        array = measured(
            lambda progress: encoder.encode(texts, kind="query", progress=progress),
            texts,
            "query",
            workspace,
        )
        vectors: list[list[float]] = array.tolist()
        return vectors

    def seconds(self, text: str) -> float:
        """Return the wall time of embedding a query, past the cache."""
        encoder, before = self.encoder(), time.perf_counter()
        encoder.encode_now([text], kind="query")
        return time.perf_counter() - before

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> Encoder:
        """Return the model with its prompt and cache; it is loaded for the first unknown text."""
        options = workspace.encoder_options(self, "embeddings")
        return Encoder(**options, normalise=self.normalise)


class ServedRetriever(ExternalRetriever, ABC):
    """A search that may want vectors of an embedding model of ours."""

    embedding: QueryEmbedding | None = None

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> Sequence[object]:
        if self.embedding is None or not texts:
            return super().vectors(texts, workspace)
        return self.embedding.vectors(texts, workspace)

    def ranking_config(self) -> Mapping[str, Any]:
        embedding = (
            {}
            if self.embedding is None
            else {"embedding": self.embedding.encoder().describe("query")}
        )
        return {**super().ranking_config(), **embedding}

    def versions(self) -> Mapping[str, str]:
        return {name: version(name) for name in PACKAGES if self.embedding is not None}


class ImportedRetriever(Retriever, ABC):
    """Options of a retriever that is read, not asked; its hits are located as those of a search.

    ``chunking`` names the chunks that its ids are of; ``own``: what was retrieved are texts and
    spans.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE

    chunking: str | None = None

    @abstractmethod
    def read(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        """Return what was retrieved for each query that is there, or why that failed.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.

        Raises:
            DataError: the file cannot be read.
        """
