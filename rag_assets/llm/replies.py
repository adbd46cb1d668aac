"""Replies of language models, each stored as it arrives: what was asked once is never paid again.

A reply is addressed by its request alone: the model that was asked for, the endpoint, messages,
parameters and the number of the sample (SHA-256 of their canonical JSON). No version of any code
is part of it. What is stored is what the server sent; what is made of it is computed when it is
read, by pure functions (:mod:`rag_assets.query_sets.model_output`, for one), so another parser asks
nothing again.

Replies go to a journal: a file of JSON lines that belongs to one writer alone, brought to the disk
line by line, so two processes never meet and a line that was torn is the last one. At the end of
its work a writer puts its journal into a segment (:mod:`rag_assets.store.content_cache`) and
deletes it. The journal of a process that was killed stays, is read like a segment, and becomes one
when somebody has the store alone (:func:`settle`).

Failures are not stored, so that they are asked again; a refusal and a half answer are replies.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import StoreError
from rag_assets.llm.client import ChatRequest, Completion
from rag_assets.store.atomic import remove
from rag_assets.store.canonical import canonical_json
from rag_assets.store.content_cache import ContentCache, text_keys

JOURNALS = "*.jsonl"

_SCHEMA = pa.schema(
    [
        pa.field("request", pa.string(), False),  # what the key is the hash of
        pa.field("text", pa.string(), False),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("finish_reason", pa.string(), False),
        # In the order in which versions added them: older files lack them.
        pa.field("seconds", pa.float64()),
        pa.field("served_model", pa.string()),
        pa.field("time", pa.string()),
    ]
)
_REPLY = _SCHEMA.names[1:]

_log = logging.getLogger(__name__)


class ReplyStore:
    """The replies in one folder; several processes may read and write it at once.

    Of two replies to the same request the older one is read, so what is read does not change.
    """

    def __init__(self, folder: Path) -> None:
        """Use ``folder``; it is created by the first reply."""
        self.folder = folder
        self._cache = ContentCache(folder, _SCHEMA)

    def get(
        self, identity: Mapping[str, str], requests: Sequence[ChatRequest]
    ) -> list[Completion | None]:
        """Return the reply of the model ``identity`` to each request, None where there is none."""
        replies = self._look_up([request_text(identity, request) for request in requests])
        missing = [number for number, reply in enumerate(replies) if reply is None]
        old = self._look_up([_old_text(identity, requests[number]) for number in missing])
        for number, reply in zip(missing, old, strict=True):
            replies[number] = reply
        return replies

    @contextmanager
    def journal(self, identity: Mapping[str, str]) -> Iterator[Journal]:
        """Open a journal for replies of the model ``identity``; at the end it is a segment.

        Raises:
            StoreError: the folder cannot be written.
        """
        journal = Journal(self.folder, identity)
        try:
            yield journal
        finally:
            if journal.close():
                self._settle(journal.path)

    def served_models(self, identity: Mapping[str, str]) -> list[str]:
        """Return the names that the server gave the model ``identity``, by the first reply of each.

        More than one name means that the server exchanged the model behind the one that is asked
        for: replies of both do not belong into one evaluation. Servers that give no name, and
        replies of versions that did not store it, are left out.
        """
        of_model = f'{{"model":{canonical_json(dict(identity))},'
        first: dict[str, str] = {}
        columns = ["request", "served_model", "time"]
        journals = pa.Table.from_arrays(_columns([*self._journal_rows()]), schema=_SCHEMA)
        for table in (journals, *self._cache.tables(columns)):
            if not set(columns) <= set(table.column_names):
                continue  # of an older version
            rows = table.filter(pc.starts_with(table["request"], of_model)).select(columns)
            for _, name, when in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                if name is not None:
                    first[name] = min(when or "", first.get(name, when or ""))
        return sorted(first, key=lambda name: (first[name], name))

    def settle(self) -> None:
        """Make segments of the journals that killed processes left.

        Only for who has the store alone: the journal of a process that lives must stay.

        Raises:
            StoreError: the folder cannot be written.
        """
        for path in sorted(self.folder.glob(JOURNALS)):
            self._settle(path)

    def _look_up(self, texts: Sequence[str]) -> list[Completion | None]:
        # Before the segments: a journal that becomes one meanwhile is seen in one of the two.
        journals = {row["request"]: row for row in reversed(list(self._journal_rows()))}
        replies: list[Completion | None] = [None] * len(texts)
        for hits in self._cache.find(text_keys(texts), _REPLY):
            rows = hits.chosen().to_pylist()
            for number, row in zip(hits.asked.tolist(), rows, strict=True):
                replies[number] = Completion(**row)
        for number, text in enumerate(texts):
            if replies[number] is None and text in journals:
                replies[number] = Completion(**{name: journals[text][name] for name in _REPLY})
        return replies

    def _journal_rows(self) -> Iterator[Mapping[str, Any]]:
        for path in sorted(self.folder.glob(JOURNALS)):
            yield from read_journal(path)

    def _settle(self, path: Path) -> None:
        """Put a journal into a segment; killed in between, its rows are known the next time."""
        first = {row["request"]: row for row in reversed(list(read_journal(path)))}
        if first:
            self._cache.put(text_keys([*first]), _columns([*first.values()]))
        remove(path)


class Journal:
    """What one writer stores; a file that is created by the first reply."""

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        """Write into ``folder``."""
        self.path = folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.jsonl"
        self._identity = identity
        self._file: BinaryIO | None = None
        self._lock = Lock()

    def add(self, request: ChatRequest, reply: Completion) -> None:
        """Store a reply; it is on the disk when this returns. For any thread.

        Raises:
            StoreError: the folder cannot be written.
        """
        row = {"request": request_text(self._identity, request), **reply._asdict()}
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            try:
                if self._file is None:
                    self._file = _created(self.path)
                self._file.write(line)
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise StoreError(f"cannot write {self.path}: {error.strerror or error}") from error

    def close(self) -> bool:
        """Close the file; return whether there is one."""
        if self._file is not None:
            self._file.close()
        return self._file is not None


def read_journal(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the replies of a journal; nothing of one that is gone, or of a line that is torn.

    Raises:
        StoreError: it is there and cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return  # its writer has made a segment of it
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            row = json.loads(line)
            _columns([row])
        except (ValueError, KeyError, TypeError, pa.ArrowException):
            _log.warning("completion cache: %s:%d is damaged and left out", path, number)
            continue
        yield row


def request_text(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the canonical JSON whose SHA-256 is the address of a reply."""
    return canonical_json({"model": dict(identity), "request": request.content()})


def reply_key(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the address of a reply, as 64 hexadecimal digits."""
    return hashlib.sha256(request_text(identity, request).encode()).hexdigest()


def _old_text(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the address that versions before the sample number gave, with the prompt's name."""
    content: dict[str, object] = {**request.content(), "template": request.template}
    if content.pop("sample") != 0:
        return ""  # they had none, and none has this address
    return canonical_json({"model": dict(identity), "request": content})


def _created(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("xb")
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
    return [pa.array([row[field.name] for row in rows], field.type) for field in _SCHEMA]
