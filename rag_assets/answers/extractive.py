"""Answers that are copied from passages: the best sentence, or the span that a model scores best.

:func:`best_sentence` needs no model: it is the sentence that shares the most words with the
question. :class:`SpanModel` is a question-answering model of ``transformers`` (Devlin, Chang, Lee
and Toutanova: BERT, NAACL 2019, sections 4.2 and 4.3). With its two logits of each token, a span
from token i to token j >= i of one passage has the score ``start(i) + end(j)``, and no answer has
``start(0) + end(0)``, those of the first token. A passage that is longer than the model reads is
read in windows that overlap.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.models.model_files import default_device, loaded, quiet_models
from rag_assets.models.model_names import resolve_model
from rag_assets.package_versions import version

MAX_SENTENCE_TOKENS, MAX_WORD_CHARACTERS, MAX_QUESTION_TOKENS = 256, 64, 200
"""In tokens, characters, and tokens."""

_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without blanks: a character is a token
    r"|\d+(?:[.,:]\d+)*+|[^\W\d_]+"
    r"|(\S)\1*+"  # a rule of dashes is one
)
_SENTENCE_END = re.compile(
    r"(?<![.!?\u3002\uff01\uff1f])[.!?\u3002\uff01\uff1f]++[\"')\]]*+(?:\s++(?=[^a-z])|$)|\n"
)
_ENDING = re.compile(r"(?:ings?|edly|ed|ies|es|s|ly|ions?|ers?|e|y)$")
_QUESTION_WORDS = ("who", "whom", "whose", "when", "where", "why", "which", "what", "how")
_VERBS = ("is", "are", "was", "were", "be", "been", "did", "does", "do", "has", "have", "had")
_SMALL_WORDS = ("the", "a", "an", "of", "in", "to", "for")
_SKIPPED = frozenset((*_QUESTION_WORDS, *_VERBS, *_SMALL_WORDS))


class SpanAnswer(NamedTuple):
    """``text`` is ``passages[passage][start:end]``: empty, and ``passage`` -1, if none has a word.

    ``score`` compares answers to one question; it is no probability.
    """

    text: str
    passage: int
    start: int
    end: int
    score: float


NO_ANSWER = SpanAnswer("", -1, 0, 0, 0.0)


def best_sentence(question: str, passages: Sequence[str]) -> SpanAnswer:
    """Return the sentence that shares the most words with the question.

    The score is the sum of log((N + 1) / (n + 0.5)) over the question's words (their stems) that
    the sentence has, where n of all N sentences have them. Of equal sentences the first is taken.
    """
    tokens = [match.group().lower()[:MAX_WORD_CHARACTERS] for match in _TOKEN.finditer(question)]
    stems = {
        _stem(token)
        for token in tokens[:MAX_QUESTION_TOKENS]
        if token[0].isalnum() and token not in _SKIPPED
    }
    sentences = [
        (number, start, end, stems & words)
        for number, text in enumerate(passages)
        for start, end, words in _sentences(text)
    ]
    if not sentences:
        return NO_ANSWER
    counts = Counter(chain.from_iterable(shared for *_, shared in sentences))
    inverse = {stem: math.log((len(sentences) + 1) / (n + 0.5)) for stem, n in counts.items()}
    scores = [math.fsum(map(inverse.__getitem__, shared)) for *_, shared in sentences]
    score = max(scores)
    number, start, end, _ = sentences[scores.index(score)]
    return SpanAnswer(passages[number][start:end], number, start, end, score)


@lru_cache(maxsize=1024)  # a passage is read once for all questions that it may answer
def _sentences(text: str) -> Sequence[tuple[int, int, set[str]]]:
    """Return where each sentence starts and ends, and the stems of its words.

    A sentence also ends at a line's end, and after 256 tokens.
    """
    tokens = [(token.start(), token.end(), _stem(token.group())) for token in _TOKEN.finditer(text)]
    starts = [start for start, *_ in tokens]
    ends = [bisect_left(starts, match.end()) for match in _SENTENCE_END.finditer(text)]
    sentences = []
    for first, last in pairwise([0, *ends, len(tokens)]):
        for cut in range(first, last, MAX_SENTENCE_TOKENS):
            part = tokens[cut : min(cut + MAX_SENTENCE_TOKENS, last)]
            sentences.append((part[0][0], part[-1][1], {stem for *_, stem in part}))
    return sentences


def _stem(token: str) -> str:
    lower = token[:MAX_WORD_CHARACTERS].lower()
    stem = _ENDING.sub("", lower)
    return stem if len(stem) >= 3 else lower


KIND = "question-answering model"

MAX_ANSWER_TOKENS = 30
WINDOW_OVERLAP = 128
"""Tokens that two windows of a passage have in common, at most a quarter of a window."""

WINDOWS_AT_ONCE = 16
DEFAULT_LENGTH = 512
"""Tokens of a window where the model does not say how many it reads."""

Logits = npt.NDArray[np.float32]


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

    def answer(self, question: str, passages: Sequence[str]) -> tuple[SpanAnswer, float]:
        """Return the best span of all passages (of equal ones, the first), and no answer's score.

        That is the lowest of all windows; 0 where there is nothing to read.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        best, nulls = NO_ANSWER, list[float]()
        filled = [number for number, text in enumerate(passages) if text.strip()]
        if not filled:
            return best, 0.0
        files, texts = self._files, [passages[number] for number in filled]
        load = partial(_load, files.path, files.sha256, default_device())
        tokenizer, model = loaded(KIND, files, load)
        with quiet_models():
            for place, null, window in _windows(tokenizer, model, question, texts):
                nulls.append(null)
                if window is not None and (best.passage < 0 or window.score > best.score):
                    text = texts[place][window.start : window.end]
                    best = window._replace(text=text, passage=filled[place])
        return best, min(nulls)


def _windows(
    tokenizer: Any,  # noqa: ANN401 (transformers)
    model: Any,  # noqa: ANN401 (transformers)
    question: str,
    passages: Sequence[str],
) -> Iterator[tuple[int, float, SpanAnswer | None]]:
    """Yield of each window: its passage, the score of no answer, and its best span."""
    import torch

    declared = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    limit = min([int(n) for n in declared if n and n < 1_000_000], default=DEFAULT_LENGTH)
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
            in_passage = np.array([text == 1 for text in read.sequence_ids(window)])
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
        raise ValueError("its tokenizer does not give the positions of tokens")
    model: Any = AutoModelForQuestionAnswering.from_pretrained(
        path, dtype=torch.float32, use_safetensors=True, **local
    )
    return tokenizer, model.to(device).eval()
