"""What a user's code returned for a query, as hits: plain values, and the objects of frameworks.

Nothing of LangChain, LlamaIndex or Haystack is imported: their objects are known by what they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rag_assets.plain_text import shortened
from rag_assets.retrieval.external.base import Hit

FORMS = (
    "an id, (id, score), (document_id, start, end), a dict with id, text or document_id, start and "
    "end, or a document of LangChain, LlamaIndex or Haystack"
)

SOURCE_KEYS = ("document_id", "doc_id", "source", "file_path", "path", "file_name", "filename")
"""Keys of a document's metadata that may say where its text is from, the first that is there."""

START_KEYS = ("start_index", "split_idx_start")
"""Keys with the character at which a text starts: as LangChain and Haystack have them."""

_KEYS = {"id", "text", "document_id", "doc_id", "start", "end", "score", "source"}


MAX_CHARACTERS = 10_000_000
"""Of a returned text: more is no passage, and fills memory with copies."""


class Unusable(Exception):
    """What was returned is no list of hits; says what it is, and what is allowed."""


def hits_of(answer: object, k: int, *, as_texts: bool = False) -> list[Hit]:
    """Return the first ``k`` hits of an answer.

    Args:
        answer: a list of hits in any of the forms, or an object with a list of ``documents``.
        k: how many are wanted.
        as_texts: whether a plain text is a text, and not an id.

    Raises:
        Unusable: it is something else.
    """
    if isinstance(answer, Mapping) and "documents" in answer:  # of Haystack's `run`
        answer = answer["documents"]
    if answer is None or isinstance(answer, str | bytes | Mapping) or not _is_list(answer):
        raise Unusable(f"returned {_named(answer)}, not a list of hits; a hit is {FORMS}")
    found: list[Hit] = []
    for one in answer:  # type: ignore[attr-defined]
        if len(found) == k:
            break
        found.append(_hit(one, as_texts=as_texts))
    return found


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not hasattr(value, "model_fields")


def _hit(one: object, *, as_texts: bool) -> Hit:
    if isinstance(one, Hit):
        return _checked(one)
    if isinstance(one, str):
        return _checked(Hit(text=one) if as_texts else Hit(id=one))
    if isinstance(one, Mapping):
        return _of_mapping(one)
    if isinstance(one, tuple | list):
        return _of_tuple(tuple(one), as_texts=as_texts)
    return _of_object(one)


def _of_tuple(values: tuple[Any, ...], *, as_texts: bool) -> Hit:
    match values:
        case (str(), _, _):
            return _checked(Hit(document_id=values[0], start=values[1], end=values[2]))
        case (first, score) if score is None or _is_number(score):
            return _checked(_hit(first, as_texts=as_texts)._replace(score=_score(score)))
    raise Unusable(f"returned {_named(values)} as a hit, which is not one; a hit is {FORMS}")


def _of_mapping(given: Mapping[str, Any]) -> Hit:
    unknown = sorted(str(key) for key in given.keys() - _KEYS)
    if unknown:
        allowed = ", ".join(sorted(_KEYS))
        key = shortened(unknown[0], 80)
        raise Unusable(f"returned a hit with the key '{key}'; allowed: {allowed}")
    known = {key: value for key, value in given.items() if key != "doc_id"}
    if "doc_id" in given:
        known.setdefault("document_id", given["doc_id"])
    return _checked(Hit(**{**known, "score": _score(known.get("score"))}))


def _of_object(one: object) -> Hit:
    """Return the hit of a document of LangChain or Haystack, or of a node of LlamaIndex."""
    node = getattr(one, "node", None)
    if node is not None:  # LlamaIndex's NodeWithScore
        return _of_node(node, getattr(one, "score", None))
    metadata = _mapping(getattr(one, "metadata", None)) or _mapping(getattr(one, "meta", None))
    for name in ("page_content", "content"):  # LangChain's and Haystack's
        text = getattr(one, name, None)
        if isinstance(text, str):
            return _quoted(text, metadata, getattr(one, "score", None))
    if hasattr(one, "get_content"):
        return _of_node(one, None)
    raise Unusable(f"returned {_named(one)} as a hit, which is not one; a hit is {FORMS}")


def _of_node(node: object, score: object) -> Hit:
    """Return the hit of a node: its text without its metadata."""
    text = getattr(node, "text", None)
    if not isinstance(text, str):
        content = getattr(node, "get_content", None)
        text = content() if callable(content) else None
    if not isinstance(text, str):
        raise Unusable(f"returned {_named(node)} as a hit, which has no text")
    metadata = _mapping(getattr(node, "metadata", None))
    hit = _quoted(text, metadata, score)
    start, origin = getattr(node, "start_char_idx", None), getattr(node, "ref_doc_id", None)
    return hit._replace(
        start=start if _is_offset(start) else hit.start,
        source=hit.source if hit.source is not None else _text(origin),
    )


def _quoted(text: str, metadata: Mapping[str, Any], score: object) -> Hit:
    sources = (_text(metadata.get(key)) for key in SOURCE_KEYS)
    starts = (metadata.get(key) for key in START_KEYS)
    return _checked(
        Hit(
            text=text,
            source=next(filter(None, sources), None),
            start=next((one for one in starts if _is_offset(one)), None),
            score=_score(score),
        )
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _checked(hit: Hit) -> Hit:
    """Return a hit that is an id, a span or a text, and one of them only.

    Raises:
        Unusable: it is not.
    """
    texts = (hit.id, hit.text, hit.document_id, hit.source)
    places: tuple[object, object] = (hit.start, hit.end)
    if not all(one is None or isinstance(one, str) for one in texts):
        raise Unusable(f"returned a hit whose id, text or document_id is not a text: {_named(hit)}")
    longest = max((len(one) for one in texts if one is not None), default=0)
    if longest > MAX_CHARACTERS:
        raise Unusable(f"returned a text of {longest:,} characters; at most {MAX_CHARACTERS:,}")
    if not all(one is None or _is_offset(one) for one in places):
        shown = shortened(str(places), 80)
        raise Unusable(
            f"returned a hit with {shown} as start and end; both are whole numbers below 2**31"
        )
    is_span = None not in (hit.document_id, hit.start, hit.end)
    named = [hit.id is not None, hit.text is not None, is_span and hit.text is None]
    if sum(named) != 1:
        raise Unusable(f"returned {_named(hit)} as a hit; a hit is {FORMS}")
    return hit


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, str | bool) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False


def _score(value: object) -> float | None:
    """Return a number, of numpy too; None for anything else: scores are for people."""
    return float(value) if _is_number(value) else None  # type: ignore[arg-type]


def _named(value: object) -> str:
    return f"{type(value).__name__} {value!r:.80}"
