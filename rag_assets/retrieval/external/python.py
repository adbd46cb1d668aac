"""``type: python``: a function, or a retriever of a framework, in a user's own code.

It is called in threads, so that a call that never ends ends with its time. Python cannot stop a
thread: one that is late is left alone, and another takes its place. With one call at a time there
is one thread, which also loads the code, as in a script.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line, shortened
from rag_assets.retrieval.external.base import (
    ALWAYS,
    ExternalRetriever,
    QueryResult,
    Rejected,
    hits_of,
)
from rag_assets.retrieval.external.called_code import Call, load, source_version
from rag_assets.servers.failures import late

MAX_REASON = 300
"""Characters of what a user's code says went wrong."""

Ask = Callable[[Any, int], object]
"""Takes a query and the number of hits wanted."""


class CodeRetriever(ExternalRetriever):
    """A search in Python that is asked in this process; see :class:`PythonRetriever`."""

    needs_revision: ClassVar[bool] = False

    type: Literal["python"]
    call: Annotated[str, Field(min_length=1)]
    options: dict[str, Any] = Field(default_factory=dict)
    returns: Literal["ids", "texts"] = "ids"

    @abstractmethod
    def load(self) -> object:
        """Return the function, the class or the object; raises whatever its code raises."""

    def connect(self) -> CalledCode:
        return CalledCode(self)

    def read(self, answer: QueryResult, k: int) -> QueryResult:
        return answer


class PythonRetriever(CodeRetriever):
    """A search in your own Python code.

    ``call`` is ``package.module:name`` of an installed module, or ``path/to/file.py:name`` relative
    to the YAML file. It names a function of (query, k) or of the query alone; an object with
    ``invoke`` (LangChain), ``retrieve`` (LlamaIndex) or ``run`` (Haystack); or a class or a
    function without arguments that gives one. ``options`` are its keyword arguments. Hits are ids,
    spans, texts, or documents of these frameworks; ``returns`` says what a plain text is. Without a
    ``revision`` the source that it can reach in its package is one, together with the documents.
    """

    runs_code: ClassVar[bool] = True

    @field_validator("call")
    @classmethod
    def _names_code(cls, call: str) -> str:
        return str(Call.of(call))

    def files(self) -> Mapping[str, Path]:
        call = Call.of(self.call)
        return {**super().files(), **({"call": Path(call.place)} if call.in_file else {})}

    def with_files(self, files: Mapping[str, Path]) -> Self:
        moved = super().with_files({name: file for name, file in files.items() if name != "call"})
        if "call" not in files:
            return moved
        call = Call.of(self.call)._replace(place=str(files["call"]))
        return moved.model_copy(update={"call": str(call)})

    def ranking_config(self) -> Mapping[str, Any]:
        call = Call.of(self.call)
        named = call._replace(place=Path(call.place).name) if call.in_file else call
        return {**super().ranking_config(), "call": str(named)}

    def versions(self) -> Mapping[str, str]:
        """Return the version of the called source, where no revision stands for it.

        ``always`` stands for nothing: an evaluation of other code is one of another system.
        """
        if self.revision not in (None, ALWAYS):
            return {}
        return {"called_source": source_version(Call.of(self.call))}

    def describe_for_plan(self) -> list[str]:
        call, here = Call.of(self.call), Path.cwd()
        if call.in_file and Path(call.place).is_relative_to(here):
            call = call._replace(place=str(Path(call.place).relative_to(here)))
        return [f"runs {call} in this process"]

    def load(self) -> object:
        return load(Call.of(self.call))


class CalledCode:
    """A user's code, called in threads of its own; nothing of them outlives the process."""

    def __init__(self, config: CodeRetriever) -> None:
        self._config, self._lock = config, threading.Lock()
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._calls = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        for _ in range(config.concurrency):
            self._start()
        try:
            self._ask: Ask = self._called(partial(_loaded, config)).result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for _ in range(self._config.concurrency):
            self._calls.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def line(self, reason: str) -> str:
        return reason

    def ask(self, values: Mapping[str, Any]) -> tuple[QueryResult, float]:
        outcome, timeout = self._called(partial(self._result, values)), self._config.timeout
        started = time.perf_counter()
        try:
            result: QueryResult = outcome.result(timeout)
        except TimeoutError:
            if outcome.cancel():
                self._start()
            raise late(timeout) from None
        return result, time.perf_counter() - started

    def _called(self, work: Callable[[], Any]) -> Future[Any]:
        """Let a thread do something; one whose outcome is cancelled meanwhile ends with it."""
        outcome: Future[Any] = Future()
        self._calls.put((work, outcome))
        return outcome

    def _start(self) -> None:
        threading.Thread(target=self._run, name="rag_assets call", daemon=True).start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            work, outcome = call
            try:
                result = work()
            except BaseException as error:  # of loading the code, which nobody gives up
                outcome.set_exception(error)
                continue
            if not outcome.set_running_or_notify_cancel():
                return
            outcome.set_result(result)

    def _result(self, values: Mapping[str, Any]) -> QueryResult:
        """Call the code, and read what it returns: that of a generator is code too."""
        k = values["k"]
        try:
            answer: Any = self._ask(values["query"], k)
            if inspect.isawaitable(answer):
                answer = self._wait_for(answer)
            return QueryResult(hits_of(answer, k, as_texts=self._config.returns == "texts"))
        except Rejected as error:
            return QueryResult(error=str(error))
        except BaseException as error:  # whatever a user's code raises, in this thread
            return QueryResult(error=reason_of(error))

    def _wait_for(self, value: Awaitable[Any]) -> Any:  # noqa: ANN401 (what the code gives)
        """Wait for a coroutine in the one event loop that all of them share."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
        within = asyncio.wait_for(_guarded(value), self._config.timeout)
        result, error = asyncio.run_coroutine_threadsafe(within, self._loop).result()
        if error is not None:
            raise error
        return result


async def _guarded(value: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return what a coroutine raises too: an exit would end the event loop of all of them."""
    try:
        return await value, None
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        return None, error


def reason_of(error: BaseException) -> str:
    """Return what a user's code raised, on one line; its message is code of the user too."""
    try:
        text = shortened(str(error), 10 * MAX_REASON)
    except BaseException:
        text = "its message cannot be read"
    reason = " ".join(f"{type(error).__name__}: {text}".split())
    return shortened(one_line(reason), MAX_REASON)


def _loaded(config: CodeRetriever) -> Ask:
    """Load the code, and return how it is asked."""
    try:
        return _asking(config.load(), config)
    except UsageError:
        raise
    except Rejected as problem:
        raise UsageError(f"call {config.call}: {problem}") from None
    except BaseException as error:  # whatever a user's code raises, in this thread
        raise UsageError(f"call {config.call}: cannot be loaded: {reason_of(error)}") from error


def _asking(target: Any, config: CodeRetriever) -> Ask:  # noqa: ANN401 (a user's object)
    """Return how a function, a class or an object is asked; raises Rejected if it cannot be."""
    options = dict(config.options)
    if inspect.isclass(target) or _is_factory(target, options):
        target, options = target(**options), {}
    for name in ("invoke", "retrieve", "run"):
        if not inspect.isroutine(target) and callable(getattr(target, name, None)):
            if options:
                raise Rejected(f"is an object with `{name}`, which takes no `options`")
            return _by_run(target) if name == "run" else _by_method(target, name)
    if callable(target) and _takes(target, 2, options):
        return partial(target, **options)
    if callable(target) and _takes(target, 1, options):
        return lambda query, k: target(query, **options)
    given = ", ".join(["query", "k", *(f"{name}=" for name in options)])
    raise Rejected(
        f"is a {type(target).__name__} that cannot be called with ({given}), "
        "nor has it `invoke`, `retrieve` or `run`"
    )


def _is_factory(target: object, options: Mapping[str, Any]) -> bool:
    """Return whether it is a function that takes neither a query nor k."""
    takes = [inspect.isroutine(target) and _takes(target, n, options) for n in (0, 1, 2)]
    return takes == [True, False, False]


def _takes(target: Any, n_arguments: int, options: Mapping[str, Any]) -> bool:  # noqa: ANN401
    try:
        inspect.signature(target).bind(*[None] * n_arguments, **options)
    except TypeError:
        return False
    except ValueError:  # built in: it has no signature
        return n_arguments == 2
    return True


def _by_method(target: Any, name: str) -> Ask:  # noqa: ANN401
    @cache
    def asking_for(k: int) -> Any:  # noqa: ANN401
        """Return a copy that gives ``k`` documents, where the object has a place for that."""
        if isinstance(values := getattr(target, "search_kwargs", None), Mapping):
            return _with(target, "search_kwargs", {**values, "k": k})
        for place in ("similarity_top_k", "k"):
            if isinstance(getattr(target, place, None), int):
                return _with(target, place, k)
        return target

    return lambda query, k: getattr(asking_for(k), name)(query)


def _by_run(target: Any) -> Ask:  # noqa: ANN401
    if callable(getattr(target, "warm_up", None)):
        target.warm_up()
    parameters = inspect.signature(target.run).parameters
    if "query" not in parameters:
        names = ", ".join(parameters) or "nothing"
        problem = f"its `run` takes no `query` but {names}"
        raise Rejected(f"{problem}; write a function of (query, k) that runs it")
    if "top_k" in parameters:
        return lambda query, k: target.run(query=query, top_k=k)
    return lambda query, k: target.run(query=query)


def _with(target: Any, name: str, value: object) -> Any:  # noqa: ANN401
    """Return a copy of a user's object with another value, the object as it was."""
    if callable(getattr(target, "model_copy", None)):
        return target.model_copy(update={name: value})
    copied = copy.copy(target)
    setattr(copied, name, value)
    return copied
