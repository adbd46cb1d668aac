"""Whether an answer stands in a text, text by text."""

from __future__ import annotations

from rag_assets.evaluation.returned_texts import bounded, normalised


def holds(text: str, answer: str) -> bool:
    """Whether the answer is in the text, both as they are written.

    An answer of which normalisation leaves nothing, such as ``the`` or ``?``, stands nowhere.
    """
    answer_words = normalised(answer)
    return bool(answer_words) and bounded(answer_words) in bounded(normalised(text))
