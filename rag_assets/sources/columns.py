"""Which key of a JSON object, or column of a table, holds which field of a row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rag_assets.errors import UsageError, allowed_names
from rag_assets.sources.fields import Place, shown

DOCUMENT_ID = "document_id"

NAMES: dict[str, tuple[str, ...]] = {
    DOCUMENT_ID: ("document_id", "doc_id", "_id", "id"),
    "title": ("title",),
    "text": ("text",),
    "query_id": ("query_id", "_id"),
    "query": ("text", "query"),
}
"""Every field that can be mapped, with the names that are looked for, in this order."""

_OTHERWISE_THE_FIRST = frozenset({"title", "query_id", "query"})
"""Fields that are absent under their first name: optional, or missed by the reader itself."""


@dataclass(frozen=True)
class Columns:
    """The mapping of an experiment, field to name; what it leaves out is looked for.

    The id of a document may have several names, for ids that repeat per source: it is then their
    values with ``/`` between, see :func:`fields.joined_id`.
    """

    given: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str | Sequence[str]]) -> Columns:
        """Return a mapping after a check of its fields.

        Raises:
            UsageError: a field does not exist, or several names are given for another field than
                the id of a document.
        """
        for name, names in given.items():
            if name not in NAMES:
                raise UsageError(f"unknown field {allowed_names(name, NAMES)}")
            if isinstance(names, str):
                continue
            if name != DOCUMENT_ID:
                raise UsageError(f"`{name}` must be one name; a list is for {DOCUMENT_ID}")
            if not names or len(set(names)) < len(names):
                raise UsageError(f"`{name}` must be a list of different names")
        return cls(dict(given))

    @property
    def id_parts(self) -> tuple[str, ...]:
        """The names whose values make the id of a document together; none where one holds it."""
        names = self.given.get(DOCUMENT_ID, "")
        return () if isinstance(names, str) else tuple(names)

    def document_id(self, found: Collection[str], place: Place) -> tuple[str, ...]:
        """Return the names that hold the id of a document, among those ``found`` in the first row.

        Raises:
            DataError: one is not there.
        """
        for name in self.id_parts:
            if name not in found:
                raise place.error(_missing(DOCUMENT_ID, (name,), True, found))
        return self.id_parts or (self.name(DOCUMENT_ID, found, place),)

    def name(self, wanted: str, found: Collection[str], place: Place) -> str:
        """Return the name of a field among those ``found`` in the first row.

        Raises:
            DataError: none of its names is there, and the field is needed.
        """
        given = self.given.get(wanted)
        names = (given,) if isinstance(given, str) else NAMES[wanted]
        for name in names:
            if name in found:
                return name
        if wanted in _OTHERWISE_THE_FIRST and given is None:
            return names[0]
        raise place.error(_missing(wanted, names, given is not None, found))


def _missing(wanted: str, names: tuple[str, ...], given: bool, found: Collection[str]) -> str:
    listed = ", ".join(shown(name, 30) for name in list(found)[:8]) or "none"
    looked_for = " or ".join(shown(name) for name in names)
    advice = "correct `columns`" if given else f"name it as `{wanted}` under `columns`"
    return f"no {looked_for} for {wanted}; found: {listed}; {advice}"
