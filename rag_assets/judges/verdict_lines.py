"""The score in a judge's reply: on a line of its own, once, or there is none.

The line is ``##final score: n``, the last of the reply, or the first where the reason stands below
it. Whoever searches a reply for numbers finds those of the passage: "published in 2019" is no
verdict. So nothing else is read, and a reply that speaks of a final score with a number anywhere
else, as one does that repeats what a passage tells it to say, has none either. What a model thinks
aloud before its reply (``<think>``) is no part of it.
"""

from __future__ import annotations

import re

from rag_assets.query_sets.model_output import without_thinking

_LINE = re.compile(r"(?:\*\*|`)?\s*##\s*final score:\s*([0-9])\s*(?:\*\*|`)?", re.IGNORECASE)
_MENTION = re.compile(r"final[\s_*-]*score\W{0,20}(?:(?:is|of|=)\W{0,5})?[0-9]", re.IGNORECASE)


def parse(reply: str, highest: int = 3) -> int | None:
    """Return the score of a reply; None: it has none, or one that is out of range.

    Args:
        reply: as the model wrote it.
        highest: the best score; the worst is 0.
    """
    lines = [line for text in without_thinking(reply).splitlines() if (line := text.strip())]
    scores = [match for line in lines if (match := _LINE.fullmatch(line))]
    if len(scores) != 1 or len(_MENTION.findall("\n".join(lines))) != 1:
        return None
    if not (_LINE.fullmatch(lines[-1]) or _LINE.fullmatch(lines[0])):
        return None
    score = int(scores[0][1])
    return score if score <= highest else None
