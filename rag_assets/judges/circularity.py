"""Whether a judge judges its own work: by the names of models.

One model has several names: providers put their own before it (``openai/gpt-4o``), and a version
stands behind it (``gpt-4o-2024-08-06``), so these are left out of the comparison. Two sizes or
generations are two models, of one family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VERSION = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|latest|free))+$")
_LETTERS = re.compile(r"[a-z]+")

_RELATIVES = {
    "chatgpt": "gpt",
    "o": "gpt",
    "davinci": "gpt",
    "ministral": "mistral",
    "mixtral": "mistral",
    "magistral": "mistral",
    "codestral": "mistral",
    "gemma": "gemini",
    "qwq": "qwen",
}


class Use(NamedTuple):
    """What a model does upstream of verdicts.

    Attributes:
        model: its name.
        work: as the end of a sentence: ``writes the answers of plain``.
        path: the partitions from there to the verdicts.
    """

    model: str
    work: str
    path: tuple[str, ...]


def model_name(name: str) -> str:
    """Return what two names of one model have in common."""
    return _VERSION.sub("", name.strip().lower().rsplit("/", 1)[-1])


def family(name: str) -> str:
    """Return the family of a model: ``gpt`` of ``openai/gpt-4o`` and of ``o3-mini``."""
    first = _LETTERS.match(model_name(name))
    letters = first[0] if first else model_name(name)
    return _RELATIVES.get(letters, letters)


def circles(judge: str, model: str, uses: Iterable[Use]) -> Iterator[str]:
    """Yield a sentence for each use of the judge's own model, with its path.

    Args:
        judge: its name in the experiment.
        model: the name of its model.
        uses: what models do upstream of its verdicts.
    """
    own = model_name(model)
    for use in uses:
        if model_name(use.model) == own:
            as_what = "" if use.model == model else f" (as {use.model})"
            path = " -> ".join(use.path)
            yield f"judge {judge} uses {model}, which also{as_what} {use.work}: {path}"
