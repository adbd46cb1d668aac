"""What code and servers of the user's own may return as an answer: read and checked.

Nothing of LangChain, LlamaIndex or Haystack is imported: what their chains return is recognised by
its keys and attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_assets.answers.answer_text import cited_units
from rag_assets.called.hits import (
    COUNT,
    SCORE,
    TEXT,
    Hit,
    Rejected,
    checked_value,
    described,
    hits_of,
)

MAX_CONTEXTS = 1000
"""Of one answer; more are left out."""


class OwnAnswer(NamedTuple):
    """What the user's code or server gave for a question, checked.

    Attributes:
        answer: its text; empty: it refused.
        abstained: whether it refused; None: the text tells.
        cited: numbers of units of the context, from 1; None: it cites nothing.
        contexts: what it retrieved by itself; None: nothing that it tells of.
        prompt_tokens: what it spent, by its own account.
        completion_tokens: likewise.
        cost: likewise, in the user's own unit.
    """

    answer: str
    abstained: bool | None = None
    cited: Sequence[int] | None = None
    contexts: Sequence[Hit] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


_ALIASES: Mapping[Any, str] = {
    "response": "answer",  # LlamaIndex
    "result": "answer",  # LangChain
    "content": "answer",
    "context": "contexts",
    "source_documents": "contexts",
    "source_nodes": "contexts",
}
_AMOUNTS = {"prompt_tokens": COUNT, "completion_tokens": COUNT, "cost": SCORE}
_ASKED = ("input", "query", "question", "chat_history")
"""What chains return of what they were asked."""

FORMS = (
    f"a text, or a mapping or an object with {', '.join(OwnAnswer._fields)}; "
    "or what a chain of LangChain, LlamaIndex or Haystack returns"
)


def own_answer(value: object, *, as_texts: bool = False) -> OwnAnswer:
    """Return an answer in any of :data:`FORMS`, checked; raises Rejected if it is none.

    ``as_texts`` says that a plain text among the contexts is one, and not an id.
    """
    fields = _fields(value)
    if "answer" not in fields:
        raise Rejected(f"returned {described(value)}, not an answer; it must be {FORMS}")
    given = {name: value for name, value in fields.items() if value is not None}
    text = checked_value("`answer`", _text_of(given.get("answer", "")), TEXT)
    checked: dict[str, Any] = {
        name: checked_value(f"`{name}`", given[name], kind)
        for name, kind in _AMOUNTS.items()
        if name in given
    }
    if "abstained" in given:
        checked["abstained"] = _as_is(given, "abstained", bool, "true or false")
    if "contexts" in given:
        checked["contexts"] = hits_of(given["contexts"], MAX_CONTEXTS, as_texts=as_texts)
    if "cited" in given:
        cited = _as_is(given, "cited", list | tuple | set, "a list of numbers of contexts, or ids")
        checked["cited"] = [_number(place, checked.get("contexts", ())) for place in cited]
    else:
        checked["cited"] = cited_units(text) or None
    return OwnAnswer(text, **checked)


def _fields(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        return {"answer": value}
    if isinstance(value, Mapping):
        if value and all(isinstance(part, Mapping) for part in value.values()):
            return _of_components(value)
        fields = {_ALIASES.get(key, key): field for key, field in value.items()}
        for key in fields.keys() - {*OwnAnswer._fields, *_ASKED}:
            allowed = ", ".join(OwnAnswer._fields)
            raise Rejected(f"the answer has the key {described(key)}; allowed: {allowed}")
        return fields
    names = (*_ALIASES, *OwnAnswer._fields)
    fields = {_ALIASES.get(n, n): getattr(value, n) for n in names if hasattr(value, n)}
    usage = getattr(value, "usage_metadata", None)  # of a message of LangChain
    if isinstance(usage, Mapping):
        fields["prompt_tokens"] = usage.get("input_tokens")
        fields["completion_tokens"] = usage.get("output_tokens")
    return fields


def _of_components(outputs: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the fields of what a pipeline of Haystack returns: the outputs of its components."""
    merged = {name: value for part in outputs.values() for name, value in part.items()}
    for name in ("answers", "replies"):
        if isinstance(merged.get(name), Sequence) and merged[name]:
            first = merged[name][0]
            contexts = merged.get("documents", getattr(first, "documents", None))
            return {"answer": first, "contexts": contexts}
    return {}


def _text_of(value: object) -> object:
    """Return the text of a message or an answer of a framework, else the value."""
    texts = (getattr(value, name, None) for name in ("content", "text", "data"))
    return next((text for text in texts if isinstance(text, str)), value)


def _as_is(given: Mapping[str, Any], name: str, kind: Any, what: str) -> Any:  # noqa: ANN401
    if not isinstance(given[name], kind):
        raise Rejected(f"`{name}` is {described(given[name])}; it must be {what}")
    return given[name]


def _number(cited: object, contexts: Sequence[Hit]) -> int:
    """Return the number of a unit that is cited by it, or by an id that one of them has."""
    if isinstance(cited, str):
        for number, hit in enumerate(contexts, 1):
            if cited in (hit.id, hit.document_id, hit.source):
                return number
        raise Rejected(f"`cited` has {described(cited)}, and no context has this id")
    number = checked_value("`cited`", cited, COUNT)
    if number == 0:
        raise Rejected("`cited` has 0; contexts are numbered from 1")
    return int(number)
