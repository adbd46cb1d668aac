"""Answers of language models by content: what was asked once is never paid for again.

The key of an answer is the SHA-256 of all that determines it: the model's identity, the messages,
temperature, seed, most tokens, and the name and version of the prompt. Failures are not kept, so
that they are asked again; a refusal and a half answer are answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from rag_assets.llm.client import ChatRequest, Completion
from rag_assets.store.canonical import canonical_json
from rag_assets.store.segments import KEY, Segments

_VALUES = {
    "text": pa.string(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "finish_reason": pa.string(),
}
SECONDS = "seconds"
"""Column of what an answer took; files of older versions have none."""

_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("request", pa.string(), False),  # for people: what the key is the hash of
        pa.field("text", pa.string(), False),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("finish_reason", pa.string(), False),
        pa.field(SECONDS, pa.float64()),
    ]
)


class CompletionCache:
    """The answers in one folder; several processes may read and write it at once."""

    def __init__(self, folder: Path) -> None:
        """Use ``folder``; it is created by the first ``put``."""
        self._segments = Segments(folder, [*_VALUES, SECONDS], _check, "completion cache")

    def get(
        self, identity: Mapping[str, str], requests: Sequence[ChatRequest]
    ) -> list[Completion | None]:
        """Return the answer of the model ``identity`` to each request, None where there is none."""
        answers: list[Completion | None] = [None] * len(requests)
        keys = _keys(request_text(identity, request) for request in requests)
        for part in self._segments.find(keys):
            rows = part.values.take(pa.array(part.rows))
            names = [name for name in (*_VALUES, SECONDS) if name in rows.column_names]
            columns = (rows.column(name).to_pylist() for name in names)
            for asked, values in zip(part.asked.tolist(), zip(*columns, strict=True), strict=True):
                answers[asked] = Completion(*values)
        return answers

    def put(
        self, identity: Mapping[str, str], answers: Sequence[tuple[ChatRequest, Completion]]
    ) -> None:
        """Add answers of the model ``identity``; what is known already stays as it is.

        Raises:
            StoreError: the folder cannot be written.
        """
        by_text = {request_text(identity, request): answer for request, answer in answers}
        texts = list(by_text)
        keys = _keys(texts)
        new = self._segments.unknown(keys)
        if not new.size:
            return
        chosen = [texts[i] for i in new.tolist()]
        values = zip(*(by_text[text] for text in chosen), strict=True)
        columns = [keys.take(pa.array(new)), pa.array(chosen)]
        typed = zip(values, [*_VALUES.values(), pa.float64()], strict=True)
        columns += [pa.array(column, kind) for column, kind in typed]
        self._segments.add(pa.Table.from_arrays(columns, schema=_SCHEMA))


def request_text(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the canonical JSON whose SHA-256 is the key of an answer."""
    return canonical_json({"model": dict(identity), "request": request.content()})


def _keys(texts: Iterable[str]) -> pa.Array:
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    return pa.array(digests, KEY)


def _check(schema: pa.Schema) -> None:
    for name, kind in _VALUES.items():
        if schema.field(name).type != kind:
            raise ValueError(f"column {name} is {schema.field(name).type}")
