"""Retriever types by name, each imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from rag_assets.retrieval.retriever import Retriever


class LazyTypes(Mapping[str, type[Retriever]]):
    """``type`` -> class; nothing is imported to list names, or to look whether there is one."""

    def __init__(
        self, places: Mapping[str, str], loaded: Mapping[str, type[Retriever]] | None = None
    ) -> None:
        """Take types that are to be imported, and those that are there.

        Args:
            places: name -> ``module:class``, the module in this package.
            loaded: name -> class, listed after the others.
        """
        self._places = places
        self._loaded = dict(loaded or {})
        self._names = dict.fromkeys([*places, *self._loaded])

    def and_also(self, types: Mapping[str, type[Retriever]]) -> LazyTypes:
        """Return these types and others, which are there."""
        return LazyTypes(self._places, {**self._loaded, **types})

    def __getitem__(self, name: str) -> type[Retriever]:
        """Return the class of a type."""
        if name not in self._loaded:
            module, _, of_class = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(f"{__package__}.{module}"), of_class)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a type of this name."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)
