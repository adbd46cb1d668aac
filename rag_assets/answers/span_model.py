"""A question-answering model of ``transformers``: the span of the passages that it scores best.

Devlin, Chang, Lee and Toutanova: BERT, NAACL 2019, sections 4.2 and 4.3. With the model's two
logits of each token, a span from token i to token j >= i of one passage has the score
``start(i) + end(j)``, and no answer has ``start(0) + end(0)``, those of the first token. A passage
that is longer than the model reads is read in windows that overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.answers.best_sentence import NO_ANSWER, SpanAnswer
from rag_assets.models.loading import default_device, loaded, quiet_models
from rag_assets.models.model_names import resolve_model
from rag_assets.package_versions import version

KIND = "question-answering model"

MAX_ANSWER_TOKENS = 30
WINDOW_OVERLAP = 128
"""Tokens that two windows of a passage have in common, at most a quarter of a window."""

WINDOWS_AT_ONCE = 16
DEFAULT_LENGTH = 512
"""Tokens of a window where the model does not say how many it reads."""

Logits = npt.NDArray[np.float32]


class ModelAnswer(NamedTuple):
    """The best span, and the score of no answer: the lowest of all windows."""

    span: SpanAnswer
    null_score: float


class SpanModel:
    """One model, in fp32; the weights are loaded by the first question."""

    def __init__(self, model: str) -> None:
        """Resolve the model's files, of a folder or a name at the hub; nothing is loaded.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self._files = resolve_model(model, KIND)

    @property
    def identity(self) -> Mapping[str, str]:
        """The files, and the library that runs them."""
        files = self._files
        return {
            "model_sha256": files.sha256,
            "engine": f"transformers {version('transformers')}, fp32",
        }

    def answer(self, question: str, passages: Sequence[str]) -> ModelAnswer:
        """Return the best span of all passages; of equal ones, the first.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        best, null_score = NO_ANSWER, np.inf
        filled = [number for number, text in enumerate(passages) if text.strip()]
        if not filled:
            return ModelAnswer(best, 0.0)
        tokenizer, model = self._load()
        with quiet_models():
            for place, null, window in _windows(
                tokenizer, model, question, [passages[number] for number in filled]
            ):
                null_score = min(null_score, null)
                if window is not None and (best.passage < 0 or window.score > best.score):
                    number = filled[place]
                    text = passages[number][window.start : window.end]
                    best = window._replace(text=text, passage=number)
        return ModelAnswer(best, float(null_score))

    def _load(self) -> tuple[Any, Any]:
        files = self._files
        return loaded(KIND, files, lambda: _load(files.path, files.sha256, default_device()))


def _windows(
    tokenizer: Any,  # noqa: ANN401 (transformers)
    model: Any,  # noqa: ANN401 (transformers)
    question: str,
    passages: Sequence[str],
) -> Iterator[tuple[int, float, SpanAnswer | None]]:
    """Yield of each window: its passage, the score of no answer, and its best span."""
    import torch

    limit = _window_length(tokenizer, model)
    read = tokenizer(
        [_cut(tokenizer, question, limit // 2)] * len(passages),
        list(passages),
        truncation="only_second",
        max_length=limit,
        stride=min(WINDOW_OVERLAP, limit // 4),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=True,
        return_tensors="pt",
    )
    of_passage = read.pop("overflow_to_sample_mapping").tolist()
    offsets = read.pop("offset_mapping").tolist()
    for first in range(0, len(of_passage), WINDOWS_AT_ONCE):
        part = slice(first, first + WINDOWS_AT_ONCE)
        with torch.inference_mode():
            output = model(**{name: rows[part].to(model.device) for name, rows in read.items()})
        starts = output.start_logits.float().cpu().numpy()
        ends = output.end_logits.float().cpu().numpy()
        for row in range(len(starts)):
            window = first + row
            in_passage = np.array([one == 1 for one in read.sequence_ids(window)])
            span = _best_span(starts[row], ends[row], in_passage, offsets[window])
            yield of_passage[window], float(starts[row][0] + ends[row][0]), span


def _best_span(
    starts: Logits, ends: Logits, in_passage: npt.NDArray[np.bool_], offsets: list[list[int]]
) -> SpanAnswer | None:
    """Return the best span of the passage's tokens in one window; None: it has no token."""
    places = np.flatnonzero(in_passage)
    if not len(places):
        return None
    scores = starts[places][:, None] + ends[places][None, :]
    n_tokens = len(places)
    is_allowed = np.triu(np.tri(n_tokens, n_tokens, k=MAX_ANSWER_TOKENS - 1, dtype=bool))
    first, last = np.unravel_index(np.where(is_allowed, scores, -np.inf).argmax(), scores.shape)
    start, end = offsets[places[first]][0], offsets[places[last]][1]
    return SpanAnswer("", 0, start, end, float(scores[first, last]))


def _window_length(tokenizer: Any, model: Any) -> int:  # noqa: ANN401 (transformers)
    declared = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    return min([int(one) for one in declared if one and one < 1_000_000], default=DEFAULT_LENGTH)


def _cut(tokenizer: Any, question: str, limit: int) -> str:  # noqa: ANN401 (transformers)
    """Return the first tokens of a question, so that a passage has room beside it."""
    read = tokenizer(
        question, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )["offset_mapping"]
    return question if len(read) <= limit else question[: read[limit - 1][1]]


@lru_cache(maxsize=1)
def _load(path: Path, sha256: str, device: str) -> tuple[Any, Any]:
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    local = {"local_files_only": True, "trust_remote_code": False}
    tokenizer: Any = AutoTokenizer.from_pretrained(path, **local)
    if not tokenizer.is_fast:
        raise ValueError("its tokenizer does not say where a token stands")
    model: Any = AutoModelForQuestionAnswering.from_pretrained(
        path, dtype=torch.float32, use_safetensors=True, **local
    )
    return tokenizer, model.to(device).eval()
