"""The members of each kind of thing: our own, and those that installed packages add.

A kind (retriever types, chunking strategies, metrics, ...) has a group of entry points. The name of
an entry point is the name of the member, its object is the class. Nothing is imported to list
names; a class is imported when it is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Generic, TypeVar, get_args

from rag_assets.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What all members of a kind have in common.

    Attributes:
        noun: what a member is called in messages: ``type``, ``strategy``, ``metric``, ``format``.
        group: the group of entry points.
        bases: a member is a class of one of them; without any, what has all ``attributes``.
        key: the option, or attribute of the class, that repeats the member's name.
        attributes: what a class must have besides its abstract methods.
    """

    noun: str
    group: str
    bases: tuple[type[T], ...]
    key: str
    attributes: tuple[str, ...] = ()


class Members(Mapping[str, type[T]]):
    """Name -> class: our own in the order of their table, then those of packages by name."""

    def __init__(
        self, kind: Kind[T], places: Mapping[str, str], points: EntryPoints | None = None
    ) -> None:
        """Take our own members and the entry points of others.

        Args:
            kind: what they are members of.
            places: name -> ``module:class`` of ours.
            points: those of the kind's group; None: there are none.
        """
        self.kind = kind
        self._places = dict(places)
        self._points: dict[str, EntryPoint] = {}
        self._clash: tuple[EntryPoint, str] | None = None
        self._loaded: dict[str, type[T]] = {}
        for point in sorted(points or (), key=lambda point: (point.name, point.value)):
            if point.name not in self._places and point.name not in self._points:
                self._points[point.name] = point
            elif self._clash is None:
                self._clash = point, self.owner(point.name)

    def without(self, *names: str) -> Members[T]:
        """Return the same without some members of ours."""
        places = {name: place for name, place in self._places.items() if name not in names}
        return Members(self.kind, places, EntryPoints(self._points.values()))

    def owner(self, name: str) -> str:
        """Return the package of a member; that of an installed one with its version."""
        return "rag_assets" if name in self._places else _owner(self._points[name])

    def check(self) -> None:
        """Import the members of all packages, and check that each is what its kind needs.

        Raises:
            ConfigError: an entry point cannot be imported, takes a name that exists, or is no class
                of the kind that answers to its name.
        """
        if self._clash is not None:
            point, owner = self._clash
            raise self._broken(point, f"the {self.kind.noun} exists already, in {owner}")
        for name in self._points:
            self[name]

    def __getitem__(self, name: str) -> type[T]:
        """Return a class.

        Raises:
            ConfigError: as :meth:`check`.
        """
        if name not in self._loaded:
            if name in self._points:
                self._loaded[name] = self._of_package(self._points[name])
            else:
                module, _, of_class = self._places[name].partition(":")
                self._loaded[name] = getattr(import_module(module), of_class)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a member of this name."""
        return name in self._places or name in self._points

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter((*self._places, *self._points))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places) + len(self._points)

    def _of_package(self, point: EntryPoint) -> type[T]:
        try:
            member = point.load()
            if isinstance(member, type) and hasattr(member, "model_rebuild"):
                member.model_rebuild()  # what is wrong with its options is told here
        except Exception as error:  # whatever the package does when it is imported
            problem = f"cannot be imported: {type(error).__name__}: {error}"
            raise self._broken(point, problem) from error
        lack = self._problem(point.name, member)
        if lack is not None:
            raise self._broken(point, lack)
        checked: type[T] = member
        return checked

    def _problem(self, name: str, member: object) -> str | None:
        """Return what a member lacks."""
        bases = self.kind.bases
        if not isinstance(member, type) or (bases and not set(bases) & set(member.__mro__)):
            several = "class of a family, which are" if len(bases) > 1 else "class of"
            return f"is not a {several} {', '.join(base.__name__ for base in bases) or 'its own'}"
        missing = sorted(getattr(member, "__abstractmethods__", ()))
        if missing:
            return f"lacks the methods {', '.join(missing)}"
        lacks = [attribute for attribute in self.kind.attributes if not _has(member, attribute)]
        if lacks:
            return f"lacks {', '.join(lacks)}"
        key = self.kind.key
        fields = getattr(member, "model_fields", {})
        if key in fields and get_args(fields[key].annotation) != (name,):
            return f'must have the option `{key}: Literal["{name}"]`'
        if key not in fields and getattr(member, key, None) != name:
            return f'must have the attribute `{key} = "{name}"`'
        return None

    def _broken(self, point: EntryPoint, problem: str) -> ConfigError:
        place = f"entry point {self.kind.group} '{point.name}' = '{point.value}' of {_owner(point)}"
        return ConfigError(f"{place}: {problem}")


def members(kind: Kind[T], places: Mapping[str, str]) -> Members[T]:
    """Return our own members of a kind and those of the packages that are installed now.

    Args:
        kind: what they are members of.
        places: name -> ``module:class`` of ours.
    """
    return Members(kind, places, _installed(tuple(sys.path))(kind.group))


@cache
def _installed(path: tuple[str, ...]) -> Callable[[str], EntryPoints]:
    """Return what gives a group; to look for entry points reads a file of every package."""
    points = entry_points()
    return lambda group: points.select(group=group)


def _has(member: type, name: str) -> bool:
    """Return whether objects of a class have an attribute; one may be declared without a value."""
    return any(
        name in {**vars(base), **vars(base).get("__annotations__", {})} for base in member.__mro__
    )


def _owner(point: EntryPoint) -> str:
    """Return the installed package of an entry point and its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "no package"
