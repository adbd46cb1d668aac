"""What code and servers of the user return: hits, each checked before anything reads it.

Functions, servers, databases and files all pass through one check, :func:`hit_of`. Nothing of
LangChain, LlamaIndex or Haystack is imported: their objects are recognised by their attributes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from operator import index
from typing import Any, NamedTuple

from rag_assets.plain_text import shortened

Kind = tuple[Callable[[Any], object], str]
"""Reads a value, or raises TypeError, ValueError or OverflowError; and what it must be."""

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
        if value is not None:
            label = f"hit {rank}: `{labels.get(name, name)}`"
            values[name] = checked_value(label, value, _KINDS[name])
    if not is_one_of_three(values):
        missing = [f"`{label}` matches nothing" for n, label in labels.items() if n not in values]
        names = ", ".join(values) or "none of them"
        raise Rejected(f"hit {rank}: {[*missing, f'has only {names}'][0]}; {ONE_OF_THREE}")
    return Hit(**values)


def checked_value(label: str, value: object, kind: Kind) -> Any:  # noqa: ANN401 (of the kind)
    """Return a value of a kind; raises Rejected, which says what ``label`` is, if it is none."""
    read, what = kind
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError):
        problem = f"{label} is {described(value)}; it must be {what}"
    raise Rejected(problem)


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


TEXT: Kind = (_text, f"a text of at most {MAX_CHARACTERS:,} characters")
_ID: Kind = (_id, "a text or a whole number")
COUNT: Kind = (_offset, "a whole number from 0, below 2**31")
SCORE: Kind = (_score, "a finite number")
_KINDS: Mapping[str, Kind] = dict(
    zip(Hit._fields, (_ID, TEXT, _ID, COUNT, COUNT, SCORE, TEXT), strict=True)
)
