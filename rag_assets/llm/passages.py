"""Documents in a prompt are data: numbered, between marks that no document can write.

A passage may hold anything: instructions, other numbers, an imitation of the end of the passages.
So each begins behind a line with its number and a mark, and a last such line ends them. The mark
is the HMAC-SHA-256 of all passages, keyed by what else the request is about (its question, and the
experiment's seed): 128 bits that cannot be guessed by who does not know all of that; and who does
would have to write a text that holds a hash of itself. It is no random number, so that an equal
request has equal bytes, and its reply is found again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from rag_assets.store.canonical import canonical_json

_DIGITS = 32


def passages_block(texts: Sequence[str], nonce: str) -> str:
    """Return passages as a prompt shows them: numbered from [1], each behind a line with the mark.

    Args:
        texts: the passages, in the order of their numbers.
        nonce: what else the request is about; the same for the same request.

    Returns:
        Lines ``<mark> [n]``, each before its passage, and ``<mark> end``; of no passage, the last
        one alone.
    """
    mark = passages_mark(texts, nonce)
    shown = [f"<{mark}> [{number}]\n{text}\n" for number, text in enumerate(texts, start=1)]
    return "".join([*shown, f"<{mark}> end"])


def passages_mark(texts: Sequence[str], nonce: str) -> str:
    """Return the mark of a block: 32 hexadecimal digits that occur in none of its texts."""
    content, number = canonical_json(list(texts)), 0
    while True:
        key = canonical_json([nonce, number]).encode()
        mark = hmac.new(key, content.encode(), hashlib.sha256).hexdigest()[:_DIGITS]
        if not any(mark in text.lower() for text in texts):
            return mark
        number += 1
