"""The order of numbered passages out of a language model's answer, read strictly.

An order is numbers, in brackets or not, with ``>``, commas or white space between them, or a JSON
list; the thinking of a reasoning model and a code fence are taken off before. Anything else is no
order: where a number in a sentence is taken for a vote, a refusal ranks passages.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rag_assets.llm.client import LENGTH, REFUSAL, Answer, Failure

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*\s*(.*?)\s*```", re.DOTALL)
_ORDER = re.compile(r"\[?\s*\[?[0-9]+\]?(?:(?:\s*[>,]\s*|\s+)\[?[0-9]+\]?)*\s*\]?\.?")
_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 80


class NoOrder(NamedTuple):
    """Why an answer gives no order."""

    reason: str


def read_permutation(answer: Answer, n: int) -> list[int] | NoOrder:
    """Return the order that an answer gives, as numbers from 0 to ``n`` - 1.

    A number that is repeated counts where it stands first; those that are missing follow at the
    end, in the order in which they were asked.

    Args:
        answer: of the model.
        n: how many passages there were, numbered from 1 in the prompt.
    """
    if isinstance(answer, Failure):
        return NoOrder(answer.reason)
    text = _THINKING.sub("", answer.text).strip()
    if answer.finish_reason == REFUSAL:
        return NoOrder(f"the model refused: {_shown(text)}" if text else "the model refused")
    if answer.finish_reason == LENGTH:
        return NoOrder("the answer was cut at max_tokens")
    fenced = _FENCE.fullmatch(text)
    order = fenced[1] if fenced else text
    if not _ORDER.fullmatch(order):
        return NoOrder(f"the answer is no order of passages: {_shown(text)}")
    named = [int(number) for number in _NUMBER.findall(order)]
    for number in named:
        if not 1 <= number <= n:
            return NoOrder(f"the answer names passage {number} of {n}")
    return list(dict.fromkeys([*(number - 1 for number in named), *range(n)]))


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
