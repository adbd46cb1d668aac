"""A search that is an object of this process: no experiment names its code, so none is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from pydantic import Field

from rag_assets.retrieval.external.base import ALWAYS, Hit
from rag_assets.retrieval.external.called_code import version_of_loaded
from rag_assets.retrieval.external.python import CodeRetriever

_ID_KEYS = ("id", "document_id", "doc_id")


class LiveRetriever(CodeRetriever):
    """``target`` is asked; ``call`` is how it is named in reports.

    It is known by the retriever's name and by its source where that can be read, else each
    evaluation asks it again. Whole numbers are ids too, as they are of documents.
    """

    target: Any = Field(exclude=True, repr=False)
    called_source: str | None = Field(default=None, exclude=True, repr=False)

    @classmethod
    def block(cls, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the retriever ``name``, whose ``call`` is a function or object."""
        target = options["call"]
        version = None if options.get("revision") is not None else version_of_loaded(target)
        own = getattr(target, "__qualname__", type(target).__qualname__)
        found = {**options, "call": f"{name}:{own}", "target": target, "called_source": version}
        return found if version is not None else {"revision": ALWAYS, **found}

    def load(self) -> object:
        """Return the object itself."""
        return self.target

    def hits(self, answer: object, k: int) -> list[Hit]:
        """Return the hits; a whole number is taken as its decimal text."""
        no_list = isinstance(answer, str | bytes | Mapping) or hasattr(answer, "model_fields")
        if isinstance(answer, Iterable) and not no_list:
            answer = map(_with_text_ids, answer)
        return super().hits(answer, k)

    def versions(self) -> Mapping[str, str]:
        """Return the version of the source, where it is known."""
        return {} if self.called_source is None else {"called_source": self.called_source}

    def describe_for_plan(self) -> list[str]:
        """Return what would be run."""
        return [f"runs {self.call} of this process"]


def _with_text_ids(hit: Any) -> Any:  # noqa: ANN401
    if isinstance(hit, tuple | list) and not hasattr(hit, "_fields") and hit:
        return (_text_id(hit[0]), *hit[1:])
    if isinstance(hit, Mapping):
        return {key: _text_id(own) if key in _ID_KEYS else own for key, own in hit.items()}
    return _text_id(hit)


def _text_id(value: Any) -> Any:  # noqa: ANN401
    """Return the decimal text of a whole number, also of one of numpy."""
    if isinstance(value, str | bool) or not hasattr(value, "__index__"):
        return value
    try:
        return str(index(value))
    except TypeError:  # an array that is no number
        return value
