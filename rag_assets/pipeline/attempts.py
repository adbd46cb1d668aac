"""Further attempts: what failed because a server did not answer can be asked for again.

An artifact with failures is as immutable as any other, and old evaluations keep naming it. A
further attempt is a number in the recipe, so its artifact has a fingerprint of its own; how many
attempts a recipe has had stands in one small file each. Answers and scores that are in a cache are
not asked for again, so an attempt costs what failed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.pipeline.recipe import Recipe
from rag_assets.store.remote.opened import write_shared

ATTEMPT = "attempt"
"""Key of a recipe's configuration; absent for the first attempt."""


class Attempts:
    """The numbers of further attempts, by the fingerprint of the first."""

    def __init__(self, folder: Path) -> None:
        """Use ``folder``; it is created by the first further attempt."""
        self._folder = folder

    @cached_property
    def _numbers(self) -> dict[str, int]:
        files = self._folder.glob("*.txt") if self._folder.is_dir() else ()
        return {file.stem: _number(file) for file in files}

    def of(self, first: Recipe) -> int:
        """Return how many further attempts there were."""
        return self._numbers.get(first.fingerprint, 0) if self._numbers else 0

    def numbered(self, recipe: Recipe, first: Recipe | None = None) -> Recipe:
        """Return a recipe with the number of its latest attempt.

        Args:
            recipe: without a number.
            first: what is counted; ``recipe`` itself if None.
        """
        number = self.of(first or recipe)
        return replace(recipe, config={**recipe.config, ATTEMPT: number}) if number else recipe

    def add(self, recipe: Recipe) -> None:
        """Count a further attempt at a recipe, numbered or not.

        Raises:
            StoreError: the folder cannot be written.
        """
        config = {name: value for name, value in recipe.config.items() if name != ATTEMPT}
        first = replace(recipe, config=config)
        number = self.of(first) + 1
        file = self._folder / f"{first.fingerprint}.txt"
        text = write_shared(file, f"{number}\n", lambda there: _later(number, there))
        self._numbers[first.fingerprint] = int(text)


def _later(number: int, there: bytes | None) -> str:
    """Return the greater of a number and what another machine has counted meanwhile."""
    text = (there or b"").strip()
    return f"{max(number, int(text) if text.isdigit() else 0)}\n"


def _number(file: Path) -> int:
    """Return the number in a file.

    Raises:
        StoreError: it holds none.
    """
    try:
        return int(file.read_text(encoding="ascii"))
    except ValueError as error:
        raise StoreError(
            f"{file}: is damaged, it holds no number; write into it how often the failed queries "
            "of that partition were asked for again, or delete it: then it was never"
        ) from error
