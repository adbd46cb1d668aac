"""Why a partition is computed, said for people: what differs from the artifact that is stored."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

from rag_assets.engine.recipe import Recipe
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import ArtifactKey, Manifest
from rag_assets.store.canonical import canonical_json

NOTHING_STORED = "nothing stored yet"
DELETED = "artifact was deleted"
DAMAGED = "artifact is damaged"

MAX_VALUE_CHARACTERS = 40
"""Characters of a value that are shown to people."""

FILE = "the file under "

_HASH = re.compile(r"[0-9a-f]{64}")
_ABSENT = object()
_NAMES = {
    "model_sha256": "the model's files",
    "tokenizer_sha256": "the tokenizer",
    "file": "the file",
    "called_source": "the code that `call` names",
}
_NOUNS = {
    "documents": ("document", "documents"),
    "queries": ("query", "queries"),
    "qrels": ("judgment", "judgments"),
}
"""What a row of a table that is read from files is called."""


@dataclass(frozen=True)
class Reason:
    """One reason: what differs, and from what to what where that can be said shortly."""

    what: str
    old: str | None = None
    new: str | None = None

    @property
    def text(self) -> str:
        """The reason as a line: ``k1 1.2 -> 0.9``."""
        if self.old is None or self.new is None:
            return self.what
        return f"{self.what} {_short(self.old)} -> {_short(self.new)}"


@dataclass(frozen=True)
class Wanted:
    """What is known of a partition before its inputs are up to date.

    Attributes:
        recipe: with the digests that are known.
        unknown: roles of inputs whose digests are not known yet.
        maybe: roles of inputs of which it is not known whether they will be there.
        keys: role -> the partition that is read.
        late: keys of the configuration that follow from inputs, and are not known either.
    """

    recipe: Recipe
    unknown: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    keys: Mapping[str, ArtifactKey] = field(default_factory=dict)
    late: frozenset[str] = frozenset()

    def fits(self, manifest: Manifest) -> bool:
        """Return whether an artifact could be what comes out in the end."""
        recipe = self.recipe
        certain = recipe.inputs.keys() | (self.unknown - {""})
        return (
            certain <= manifest.inputs.keys() <= certain | self.maybe
            and all(manifest.inputs[role] == digest for role, digest in recipe.inputs.items())
            and canonical_json(self._early(manifest.config))
            == canonical_json(self._early(recipe.config))
            and dict(manifest.versions) == dict(recipe.versions)
            and manifest.code_version == recipe.code_version
        )

    def differences(self, manifest: Manifest) -> Iterator[Reason]:
        """Yield what is known to differ from an artifact."""
        recipe = self.recipe
        if manifest.schema_version != SCHEMA_VERSION:
            yield Reason("schema_version", str(manifest.schema_version), str(SCHEMA_VERSION))
        reasons = list(changes(self._early(manifest.config), self._early(recipe.config)))
        yield from reasons
        # Another configuration, also of what is read, may name other code: no change of the code.
        is_same = not reasons and manifest.versions.keys() == recipe.versions.keys()
        if is_same and manifest.code_version != recipe.code_version:
            yield Reason(f"the code of {recipe.stage} changed")
        yield from version_changes(manifest.versions, recipe.versions)
        yield from self._input_changes(manifest.inputs)

    def _early(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in config.items() if name not in self.late}

    def _input_changes(self, stored: Mapping[str, str]) -> Iterator[Reason]:
        for role in sorted(self.unknown.union(self.recipe.inputs) - stored.keys() - {""}):
            yield Reason(f"{self.keys.get(role, role)} is new")
        for role, digest in self.recipe.inputs.items():
            if stored.get(role, digest) != digest:
                yield Reason(f"{self.keys.get(role, role)} changed")
        for role in sorted(stored.keys() - self.recipe.inputs.keys() - self.unknown - self.maybe):
            yield Reason(f"{role.replace('_', ' ')} is no longer read")


def row_changes(asset: str, old: pa.Table, new: pa.Table, key: tuple[str, ...]) -> list[Reason]:
    """Return how many rows of a source changed, were added and removed, as one reason."""
    one, many = _NOUNS[asset]
    before, after = row_contents(old, key), row_contents(new, key)
    changed = sum(before[row] != content for row, content in after.items() if row in before)
    # A judgment of a query at another place of its document is one that changed.
    subject = itemgetter(*(n for n, name in enumerate(key) if name in ("query_id", "document_id")))
    added = Counter(map(subject, after.keys() - before.keys()))
    removed = Counter(map(subject, before.keys() - after.keys()))
    n_new, n_gone = (added - removed).total(), (removed - added).total()
    counts = {"changed": changed + (added & removed).total(), "added": n_new, "removed": n_gone}
    parts = [f"{count} {verb}" for verb, count in counts.items() if count]
    if not parts:
        return [Reason(f"files changed, no {one} did")]
    noun = one if parts[0].startswith("1 ") else many
    return [Reason(", ".join(parts).replace(" ", f" {noun} ", 1))]


def row_contents(table: pa.Table, key: tuple[str, ...]) -> dict[tuple[object, ...], int]:
    """Return key -> hash of the rest of its row; texts are not kept."""
    rows: dict[tuple[object, ...], int] = {}
    for batch in table.to_batches(max_chunksize=1_000):
        keys = zip(*(batch.column(name).to_pylist() for name in key), strict=True)
        contents = (repr(sorted(row.items())) for row in batch.to_pylist())
        rows.update(zip(keys, map(hash, contents), strict=True))
    return rows


def file_changes(
    old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]
) -> Iterator[Reason]:
    """Yield which files have another content: ``retrievers.mine.path: run.trec changed``.

    Of a block that is new or gone that is said, not which files it names.
    """
    for key, file in new.items():
        before = old.get(key)
        if before is not None and before["sha256"] != file["sha256"]:
            is_other = before["name"] != file["name"]
            name = f"{before['name']} -> {file['name']}" if is_other else f"{file['name']} changed"
            yield Reason(f"{key}: {name}")
    for verb, some, others in (("added", new, old), ("removed", old, new)):
        for key, file in some.items():
            if key not in others and "." not in key:  # people's labels
                yield Reason(f"{key}: {file['name']} {verb}")


def version_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Reason]:
    """Yield what differs between the versions of two artifacts."""
    for change in changes(dict(old), dict(new)):
        is_file = change.what.startswith("file.")
        yield Reason(change.what.replace("file.", FILE)) if is_file else change


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield what differs between two configurations: ``retrievers.bm25.k1 1.2 -> 0.9``."""
    before, after = dict(_flat(old)), dict(_flat(new))
    names = [*after, *(name for name in before if name not in after)]
    for name in names:
        was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if before.get(name, after.get(name)) is None and any(
            n.startswith(f"{name}.") for n in names
        ):
            continue  # what stands there now, or stood there, says it
        if was is _ABSENT or now is _ABSENT or canonical_json(was) != canonical_json(now):
            yield _change(name, was, now)


def _change(name: str, was: object, now: object) -> Reason:
    if any(isinstance(value, str) and _HASH.fullmatch(value) for value in (was, now)):
        label = _NAMES.get(name.rpartition(".")[2], name.replace("file.", FILE))
        return Reason(f"{label} changed")
    if isinstance(was, list | tuple) and isinstance(now, list | tuple):
        return _list_change(name, was, now)
    return Reason(name, _value_text(was), _value_text(now))


def _list_change(name: str, was: Sequence[object], now: Sequence[object]) -> Reason:
    """Return what came and went, where that tells the two lists apart; numbers as they are."""
    if not all(isinstance(item, str) for item in (*was, *now)):
        return Reason(name, _value_text(was), _value_text(now))
    verbs = {
        "added": [str(item) for item in now if item not in was],
        "removed": [str(item) for item in was if item not in now],
    }
    parts = [f"{', '.join(items)} {verb}" for verb, items in verbs.items() if items]
    return Reason(f"{name}: {'; '.join(parts) or 'another order'}")


def _flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _value_text(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_VALUE_CHARACTERS else f"{line[: MAX_VALUE_CHARACTERS - 3]}..."
