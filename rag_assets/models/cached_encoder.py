"""What encoders share whose output is no matrix: prompts, a cache by text, groups by length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.models.batches import Lengths, batch_lengths, in_batches
from rag_assets.models.encoder import Encoder, Kind, Progress
from rag_assets.models.loading import is_loaded
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.vector_cache import EncodedCache, Stored
from rag_assets.store.canonical import fingerprint

Encoded = TypeVar("Encoded")


class CachedEncoder(ABC, Generic[Encoded]):
    """A model, its prompts and its cache; it is loaded for the first unknown text.

    Attributes:
        stored: how what a text is encoded as lies in the cache.
        batch_size: texts that the model reads at once.
        group_size: texts that are encoded, and kept, together.
        normalise: whether vectors are brought to length 1.
    """

    stored: ClassVar[Stored[Any]]
    batch_size: ClassVar[int]
    group_size: ClassVar[int]
    normalise: ClassVar[bool]

    def __init__(
        self,
        model: str,
        *,
        cache: Path | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        compute: Compute = LOCAL,
        counted: Path | None = None,
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: name or folder, see ``resolve_model``.
            cache: folder of the cache; None remembers nothing.
            query_prompt: put before every query; None takes the model's own, empty takes none.
            document_prompt: the same for documents.
            compute: where new texts are encoded.
            counted: folder of the numbers of tokens that are known; None remembers none.

        Raises:
            ModelUnavailable: the model's files cannot be had, or it does not encode so.
        """
        self.prompts: Mapping[Kind, str | None] = {
            "query": query_prompt,
            "document": document_prompt,
        }
        self._plain = Encoder(
            model,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            normalise=self.normalise,
        )
        self._cache = cache
        self._compute = compute
        self._counted = counted
        self.check_model()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        return {**vars(self), "_cache": None, "_counted": None, "_compute": LOCAL}

    @property
    def files(self) -> ModelFiles:
        """The model's files."""
        return self._plain.files

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return is_loaded(self.files)

    def prompt(self, kind: Kind) -> str:
        """Return what is put before a text of this kind."""
        return self._plain.prompt(kind)

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines what a text is encoded as, without loading the model."""
        return self._plain.describe(kind)

    def encode(
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> dict[str, Encoded]:
        """Return text -> what it is encoded as.

        Args:
            texts: may be empty strings, and may repeat; each is encoded once.
            kind: which prompt, and which part of a model with two parts.
            progress: called with (texts encoded, texts to encode); not at all when none is new.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives what cannot be kept.
        """
        prompt = self.prompt(kind)
        return encode_unknown(
            texts,
            partial(self.encode_now, kind=kind),
            lengths=partial(
                batch_lengths,
                files=self.files,
                batch_size=self.batch_size,
                prompt=prompt,
                counted=self._counted,
            ),
            prompt=prompt,
            cache=self._opened(kind),
            compute=self._compute,
            group_size=self.group_size,
            progress=progress,
        )

    def check_model(self) -> None:
        """Refuse a model that does not encode so.

        Raises:
            ModelUnavailable: its files say that it does something else.
        """

    @abstractmethod
    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> list[Encoded]:
        """Encode texts past the cache, which is neither read nor written.

        Texts of even length should stand together: batches are cut in their order.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives what cannot be kept.
        """

    def _opened(self, kind: Kind) -> EncodedCache[Encoded] | None:
        if self._cache is None:
            return None
        described = {name: v for name, v in self.describe(kind).items() if name != "prompt"}
        own, shared = root_of(type(self), "encode_now"), root_of(CachedEncoder, "encode")
        described["code"] = filled_by(own, shared)
        return EncodedCache(self._cache, fingerprint(described), self.stored)


def encode_unknown(
    texts: Sequence[str],
    encode: Callable[[list[str]], list[Encoded]],
    *,
    lengths: Callable[[Sequence[str]], Lengths],
    prompt: str,
    cache: EncodedCache[Encoded] | None,
    compute: Compute,
    group_size: int,
    progress: Progress | None,
) -> dict[str, Encoded]:
    """Return text -> what it is encoded as.

    Unknown texts are encoded in groups, longest first, so that those of a group are of even length;
    each group is kept as soon as it is there.

    Args:
        texts: may repeat; each is encoded once.
        encode: encodes one group, and puts the prompt before its texts; it can be pickled.
        lengths: by what unknown texts are sorted, see ``batch_lengths``.
        prompt: stands before every text in the cache.
        cache: None remembers nothing.
        compute: where groups are encoded.
        group_size: texts of a group.
        progress: called with (texts encoded, texts to encode); not at all when none is unknown.
    """
    unique = list(dict.fromkeys(texts))
    known = cache.get([prompt + text for text in unique]) if cache is not None else {}
    found = {text: known[prompt + text] for text in unique if prompt + text in known}
    unknown = [text for text in unique if text not in found]
    missing = [unknown[row] for row in np.argsort(-lengths(unknown), kind="stable").tolist()]
    groups = [*in_batches(missing, group_size)]
    n_done = 0
    for number, part in compute.map(encode, ((group,) for group in groups)):
        new = dict(zip(groups[number], part, strict=True))
        if cache is not None:
            cache.put({prompt + text: one for text, one in new.items()})
        found |= new
        n_done += len(new)
        if progress is not None:
            progress(n_done, len(missing))
    return found
