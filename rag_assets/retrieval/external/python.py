"""``type: python``: a function, or a retriever of a framework, in a user's own code."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from rag_assets.errors import UsageError
from rag_assets.retrieval.external.base import (
    ALWAYS,
    ExternalRetriever,
    Hit,
    QueryResult,
    SearchSession,
)
from rag_assets.retrieval.external.called_code import Call, load, source_version
from rag_assets.retrieval.external.returned import Unusable, hits_of
from rag_assets.retrieval.external.workers import Outcome, Workers, reason_of

BATCH_QUERIES = 100
"""Queries of one call with ``batch: true``."""

Ask = Callable[[Any, int], object]
"""Takes a query, or with ``batch`` several, and how many hits are wanted."""

_METHODS = ("invoke", "retrieve", "run")
"""What retrievers of LangChain, LlamaIndex and Haystack are asked by."""


class CodeRetriever(ExternalRetriever):
    """A search in Python that is asked in this process.

    A function of (query, k), of (queries, k) with ``batch``, or of the query alone; an object with
    ``invoke`` (LangChain), ``retrieve`` (LlamaIndex) or ``run`` (Haystack); or a class or a
    function that gives one. ``options`` are its keyword arguments.
    """

    needs_revision: ClassVar[bool] = False

    type: Literal["python"]
    call: Annotated[str, Field(min_length=1)]
    options: dict[str, Any] = Field(default_factory=dict)
    batch: Annotated[bool, Field(strict=True)] = False
    returns: Literal["ids", "texts"] = "ids"

    @abstractmethod
    def load(self) -> object:
        """Return the function, the class or the object.

        Raises:
            UsageError: it cannot be loaded.
        """

    def search(
        self, queries: Sequence[tuple[str, str]], k: int, tools: SearchSession
    ) -> Iterator[QueryResult]:
        """Call the code; what it raises for a query is why that query failed."""
        workers, ask = tools.get_or_open("python", partial(_opened, self))
        texts = [text for _, text in queries]
        if not self.batch:
            works = (partial(ask, text, k) for text in texts)
            for outcome in workers.each(works, partial(self._result, k=k)):
                yield from _apart(outcome, 1)
            return
        batches = [texts[i : i + BATCH_QUERIES] for i in range(0, len(texts), BATCH_QUERIES)]
        outcomes = workers.each((partial(ask, own, k) for own in batches), self._results(k))
        for own, outcome in zip(batches, outcomes, strict=True):
            yield from _apart(outcome, len(own))

    def hits(self, answer: object, k: int) -> list[Hit]:
        """Return the first ``k`` hits of what the code gave for a query.

        Raises:
            Unusable: it is no list of hits.
        """
        return hits_of(answer, k, as_texts=self.returns == "texts")

    def _result(self, answer: object, k: int) -> list[QueryResult]:
        try:
            return [QueryResult(self.hits(answer, k))]
        except Unusable as error:
            return [QueryResult(error=str(error))]
        except BaseException as error:  # whatever a generator, or a foreign object, raises
            return [QueryResult(error=reason_of(error))]

    def _results(self, k: int) -> Callable[[Any], list[QueryResult]]:
        """Return what reads a batch; one that never ends is read no further than a batch goes."""
        return lambda answers: [
            result
            for answer in islice(answers, BATCH_QUERIES + 1)
            for result in self._result(answer, k)
        ]


class PythonRetriever(CodeRetriever):
    """A search in your own Python code.

    ``call`` is ``package.module:name`` of an installed module, or ``path/to/file.py:name`` relative
    to the YAML file. It names a function of (query, k), of (queries, k) with ``batch``, or of the
    query alone; an object with ``invoke`` (LangChain), ``retrieve`` (LlamaIndex) or ``run``
    (Haystack); or a class or a function without arguments that gives one. ``options`` are its
    keyword arguments. Hits are ids, spans, texts, or documents of these frameworks; ``returns``
    says what a plain text is. Without a ``revision`` the source that it can reach in its package is
    one, together with the documents.
    """

    @field_validator("call")
    @classmethod
    def _names_code(cls, call: str) -> str:
        return str(Call.of(call))

    @property
    def runs_code(self) -> bool:
        """Whether code that the experiment names is run: it is."""
        return True

    def files(self) -> Mapping[str, Path]:
        """Return the files that it names, that of the code too."""
        call = Call.of(self.call)
        return {**super().files(), **({"call": Path(call.place)} if call.in_file else {})}

    def with_files(self, files: Mapping[str, Path]) -> Self:
        """Return the options with other paths to files."""
        rest = {option: file for option, file in files.items() if option != "call"}
        found = super().with_files(rest)
        if "call" not in files:
            return found
        call = Call.of(self.call)._replace(place=str(files["call"]))
        return found.model_copy(update={"call": str(call)})

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found: not where a file lies."""
        return {**super().ranking_config(), "call": Call.of(self.call).shown}

    def versions(self) -> Mapping[str, str]:
        """Return the version of the called source, where no revision stands for it.

        ``always`` stands for nothing: an evaluation of other code is one of another system.
        """
        if self.revision not in (None, ALWAYS):
            return {}
        return {"called_source": source_version(Call.of(self.call))}

    def describe_for_plan(self) -> list[str]:
        """Return what would be run."""
        call, here = Call.of(self.call), Path.cwd()
        if call.in_file and Path(call.place).is_relative_to(here):
            call = call._replace(place=str(Path(call.place).relative_to(here)))
        return [f"runs {call} in this process"]

    def load(self) -> object:
        """Import what ``call`` names."""
        return load(Call.of(self.call))


def _apart(outcome: Outcome[list[QueryResult]], n_queries: int) -> list[QueryResult]:
    """Return the result of each query of a call; what one of several took is not known."""
    results, problem = outcome.value or [], outcome.error
    if problem is None and len(results) != n_queries:
        number = f"more than {BATCH_QUERIES}" if len(results) > BATCH_QUERIES else len(results)
        problem = f"returned {number} lists of hits for {n_queries} queries"
    if problem is not None:
        return [QueryResult(error=problem)] * n_queries
    seconds = outcome.seconds if n_queries == 1 else None
    return [one if one.error else one._replace(seconds=seconds) for one in results]


@contextmanager
def _opened(config: CodeRetriever) -> Iterator[tuple[Workers, Ask]]:
    workers = Workers(config.concurrency, config.timeout)
    try:
        yield workers, workers.first(partial(_loaded, config))
    finally:
        workers.close()


def _loaded(config: CodeRetriever) -> Ask:
    """Return how the code is asked.

    Raises:
        UsageError: it cannot be loaded, or what it names cannot be asked.
    """
    try:
        return _asking(config)
    except UsageError:
        raise
    except BaseException as error:  # whatever `__getattr__` of an object raises, in this thread
        raise UsageError(f"call {config.call}: cannot be asked: {reason_of(error)}") from error


def _asking(config: CodeRetriever) -> Ask:
    call, target, options = config.call, config.load(), dict(config.options)
    if inspect.isclass(target) or _is_factory(target, options):
        target, options = _made(call, target, options), {}
    method = next((name for name in _METHODS if _is_method_of(target, name)), None)
    if method is not None:
        if options or config.batch:
            key = "options" if options else "batch"
            problem = f"`{key}` is for a function, a class or a factory; this is an object"
            raise UsageError(f"call {call}: {problem} with `{method}`")
        return _METHOD_OF[method](call, target)
    if not callable(target):
        kinds = "function, nor has it `invoke`, `retrieve` or `run`"
        raise UsageError(f"call {call}: is a {type(target).__name__}, which is no {kinds}")
    if _takes(target, 2, options):
        return partial(target, **options)
    if _takes(target, 1, options):
        return lambda query, k: target(query, **options)
    given = ", ".join(["query", "k", *(f"{name}=" for name in options)])
    raise UsageError(f"call {call}: cannot be called as {call.rpartition(':')[2]}({given})")


def _is_factory(target: object, options: Mapping[str, Any]) -> bool:
    """Whether it is a function that takes neither a query nor k."""
    return (
        inspect.isroutine(target)
        and not _takes(target, 2, options)
        and not _takes(target, 1, options)
        and _takes(target, 0, options)
    )


def _made(call: str, factory: Any, options: Mapping[str, Any]) -> object:  # noqa: ANN401
    if not _takes(factory, 0, options):
        names = ", ".join(options) or "no arguments"
        raise UsageError(f"call {call}: cannot be called with {names} (its `options`)")
    try:
        return factory(**options)
    except BaseException as error:  # whatever a user's code raises
        raise UsageError(f"call {call}: cannot be made: {reason_of(error)}") from error


def _takes(target: Any, n_arguments: int, options: Mapping[str, Any]) -> bool:  # noqa: ANN401
    try:
        inspect.signature(target).bind(*[None] * n_arguments, **options)
    except TypeError:
        return False
    except ValueError:  # built in: nobody knows
        return n_arguments == 2
    return True


def _is_method_of(target: object, name: str) -> bool:
    return not inspect.isroutine(target) and callable(getattr(target, name, None))


def _by_invoke(call: str, target: Any) -> Ask:  # noqa: ANN401
    @cache
    def asking_for(k: int) -> Any:  # noqa: ANN401
        """Return a copy that gives ``k`` documents, where it has a place for that."""
        if isinstance(getattr(target, "search_kwargs", None), Mapping):
            return _with(target, "search_kwargs", {**target.search_kwargs, "k": k})
        return _with(target, "k", k) if isinstance(getattr(target, "k", None), int) else target

    return lambda query, k: asking_for(k).invoke(query)


def _by_retrieve(call: str, target: Any) -> Ask:  # noqa: ANN401
    @cache
    def asking_for(k: int) -> Any:  # noqa: ANN401
        has_place = isinstance(getattr(target, "similarity_top_k", None), int)
        return _with(target, "similarity_top_k", k) if has_place else target

    return lambda query, k: asking_for(k).retrieve(query)


def _by_run(call: str, target: Any) -> Ask:  # noqa: ANN401
    if callable(getattr(target, "warm_up", None)):
        target.warm_up()
    parameters = inspect.signature(target.run).parameters
    if "query" not in parameters:
        found = ", ".join(parameters) or "nothing"
        problem = f"its `run` takes no `query` but {found}; write a function of (query, k)"
        raise UsageError(f"call {call}: {problem} that runs it")
    if "top_k" in parameters:
        return lambda query, k: target.run(query=query, top_k=k)
    return lambda query, k: target.run(query=query)


def _with(target: Any, name: str, value: object) -> Any:  # noqa: ANN401
    """Return a copy of a user's object with another value, the object as it was."""
    if callable(getattr(target, "model_copy", None)):
        return target.model_copy(update={name: value})
    found = copy.copy(target)
    setattr(found, name, value)
    return found


_METHOD_OF: Mapping[str, Callable[[str, Any], Ask]] = {
    "invoke": _by_invoke,
    "retrieve": _by_retrieve,
    "run": _by_run,
}
