"""``type: python``: a function, or a retriever of a framework, in a user's own code."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rag_assets.called.code import NamedCode
from rag_assets.called.hits import Rejected, hits_of
from rag_assets.called.threads import Ask, CalledCode, is_factory, loaded, takes
from rag_assets.retrieval.external.base import ExternalRetriever, QueryResult

Search = Callable[[Any, int], object]
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
        return CalledCode(lambda: loaded(self.call, self._asking), self._read, self)

    def _asking(self) -> Ask:
        search = _asking(self.load(), self.options)
        return lambda values: search(values["query"], values["k"])

    def _read(self, answer: object, values: Mapping[str, Any]) -> QueryResult:
        return QueryResult(hits_of(answer, values["k"], as_texts=self.returns == "texts"))

    def read(self, answer: QueryResult, k: int) -> QueryResult:
        return answer


class PythonRetriever(NamedCode, CodeRetriever):
    """A search in your own Python code.

    ``call`` is ``package.module:name`` of an installed module, or ``path/to/file.py:name`` relative
    to the YAML file. It names a function of (query, k) or of the query alone; an object with
    ``invoke`` (LangChain), ``retrieve`` (LlamaIndex) or ``run`` (Haystack); or a class or a
    function without arguments that gives one. ``options`` are its keyword arguments. Hits are ids,
    spans, texts, or documents of these frameworks; ``returns`` says what a plain text is. Without a
    ``revision`` the source that it can reach in its package is one, together with the documents.
    """

    def asked_as(self) -> Mapping[str, Any]:
        return {**super().asked_as(), "call": self.named_call}


def _asking(target: Any, options: Mapping[str, Any]) -> Search:  # noqa: ANN401 (a user's object)
    """Return how a function, a class or an object is asked; raises Rejected if it cannot be."""
    if inspect.isclass(target) or is_factory(target, options):
        target, options = target(**options), {}
    for name in ("invoke", "retrieve", "run"):
        if not inspect.isroutine(target) and callable(getattr(target, name, None)):
            if options:
                raise Rejected(f"is an object with `{name}`, which takes no `options`")
            return _by_run(target) if name == "run" else _by_method(target, name)
    if callable(target) and takes(target, 2, options):
        return partial(target, **options)
    if callable(target) and takes(target, 1, options):
        return lambda query, k: target(query, **options)
    given = ", ".join(["query", "k", *(f"{name}=" for name in options)])
    raise Rejected(
        f"is a {type(target).__name__} that cannot be called with ({given}), "
        "nor has it `invoke`, `retrieve` or `run`"
    )


def _by_method(target: Any, name: str) -> Search:  # noqa: ANN401
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


def _by_run(target: Any) -> Search:  # noqa: ANN401
    if callable(getattr(target, "warm_up", None)):
        target.warm_up()
    parameters = inspect.signature(target.run).parameters
    if "query" not in parameters:
        names = ", ".join(parameters) or "nothing"
        problem = f"its `run` has no parameter `query`, only {names}"
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
