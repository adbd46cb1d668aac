"""Questions with their short answers out of what a model wrote."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from rag_assets.llm.client import Answer
from rag_assets.query_sets.model_output import Unusable, parsed_list, usable_text


class Question(NamedTuple):
    """A question and, where the model gave one, its answer."""

    text: str
    answer: str | None


_OBJECT = re.compile(r"\{[^{}]*\}", re.DOTALL)
_KEYS = ("question", "query")


def parsed_questions(answer: Answer, at_most: int) -> list[Question] | Unusable:
    """Return the questions of an answer: JSON objects, also one a line, or any list of texts.

    Objects are read one by one, so a broken or half one costs only itself.
    """
    text = usable_text(answer)
    if isinstance(text, Unusable):
        return text
    found = [question for part in _OBJECT.findall(text) if (question := _question(part))]
    if not found and "{" not in text:
        listed = parsed_list(answer, "", at_most)
        if isinstance(listed, Unusable):
            return listed
        found = [Question(item, None) for item in listed]
    return found[:at_most] or Unusable("the answer holds no question")


def _question(part: str) -> Question | None:
    try:
        value = json.loads(part, strict=False)
    except ValueError:
        return None
    found = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), "")
    text = " ".join(found.split())
    answer = value.get("answer")
    plain = " ".join(answer.split()) if isinstance(answer, str) else ""
    return Question(text, plain or None) if text else None
