"""The numbers of SQuAD 2.0's official script, ``evaluate-v2.0.py``, with its faults.

Source: ``evaluate-v2.0.py`` of rajpurkar/SQuAD-explorer (Rajpurkar, Jia and Liang: Know What You
Don't Know, ACL 2018); ``squad_v2`` of Hugging Face's metrics is the same. A question's score is the
best over its gold answers of EM and F1, as :mod:`rag_assets.answers.metrics` has them, with every
prediction as it is written: only an empty one refuses. Gold answers without a word left are
dropped; without any, the empty answer is gold. Means are in percent.

``no-answer probability > threshold`` turns a prediction into a refusal. Where it parts from ours:

- A question without a prediction is in no sum, so the mean over all has a smaller denominator;
  where a group lacks one, the script raises KeyError. (Ours: counts 0, and is named.)
- ``best_exact`` and ``best_f1`` walk the questions by rising probability, and take the best prefix
  as the answered ones. A prefix may split questions of one probability, which no threshold can.
- The first prefix, nothing answered, is written as threshold 0.0, which answers what has the
  probability 0.
- The walk starts with all unanswerable questions of the data, and divides by those that have a
  prediction: it can exceed 100.

(Ours: :mod:`rag_assets.answers.predictions`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rag_assets.answers.answer_text import normal_form
from rag_assets.answers.metrics import token_f1
from rag_assets.sources.fields import identifier, items, string
from rag_assets.sources.json_datasets import read_paragraphs
from rag_assets.sources.tables import UniqueIds

NAME = "squad_v2_official"

Golds = Mapping[str, tuple[str, ...]]
"""Question -> its gold answers as they are written; empty: unanswerable."""


class OfficialScores(NamedTuple):
    """What the script prints.

    ``values`` are None where the script raises KeyError; ``missing`` are questions without a
    prediction; ``per_question`` has (exact, f1) after the threshold of those with one.
    """

    values: dict[str, float | None]
    missing: tuple[str, ...]
    per_question: dict[str, tuple[float, float]]


def read_golds(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the gold answers of a SQuAD file."""
    golds: dict[str, tuple[str, ...]] = {}
    ids = UniqueIds("query")
    for paragraph in read_paragraphs(path):
        for question, place in paragraph.questions():
            query_id = identifier(question, "id", place)
            ids.add(query_id, place, "id")
            given = items(question, "answers", place) if question.get("answers") else ()
            golds[query_id] = tuple(string(answer, "text", inside) for answer, inside in given)
    return golds


def official_scores(
    golds: Golds,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> OfficialScores:
    """Return the script's numbers, under its names and in its order.

    Args:
        golds: of all questions.
        predictions: question -> answer, empty for none; those of other questions are ignored.
        na_probs: question -> probability that it has no answer; without them each is 0, and the
            script prints no best threshold.
        threshold: ``--na-prob-thresh``.
    """
    probs = {query_id: (na_probs or {}).get(query_id, 0.0) for query_id in predictions}
    scored = [query_id for query_id in golds if query_id in predictions]
    raw = {query_id: _raw(golds[query_id], predictions[query_id]) for query_id in scored}
    final = dict(raw)
    for query_id in scored:
        if probs[query_id] > threshold:
            final[query_id] = (float(not golds[query_id]),) * 2
    values = _means("", golds, final, skips=True)
    has, no = ([q for q, texts in golds.items() if bool(texts) is kind] for kind in (True, False))
    values |= _means("HasAns_", has, final) if has else {}
    values |= _means("NoAns_", no, final) if no else {}
    if na_probs is not None:
        order = [*na_probs, *(query_id for query_id in probs if query_id not in na_probs)]
        order = sorted((q for q in order if q in raw), key=lambda query_id: probs[query_id])
        for number, name in enumerate(("best_exact", "best_f1")):
            best = _best([(q, raw[q][number]) for q in order], golds, predictions)
            values[name] = best[0]
            values[f"{name}_thresh"] = probs[best[1]] if best[1] is not None else 0.0
    missing = tuple(query_id for query_id in golds if query_id not in predictions)
    return OfficialScores(values, missing, final)


def _raw(answers: tuple[str, ...], prediction: str) -> tuple[float, float]:
    forms = [form for text in answers if (form := normal_form(text))] or [""]
    answer = normal_form(prediction)
    f1 = max(token_f1(form.split(), answer.split()) for form in forms)
    return float(answer in forms), f1


def _means(
    prefix: str,
    query_ids: Iterable[str],
    scores: Mapping[str, tuple[float, float]],
    *,
    skips: bool = False,
) -> dict[str, float | None]:
    """Return the three numbers of a group; None where a prediction lacks, unless it ``skips``."""
    group = [scores.get(query_id) for query_id in query_ids]
    pairs = [pair for pair in group if pair is not None]
    if not pairs or (len(pairs) < len(group) and not skips):
        means: list[float | None] = [None, None]
    else:
        means = [100.0 * sum(pair[part] for pair in pairs) / len(pairs) for part in (0, 1)]
    return {
        f"{prefix}exact": means[0],
        f"{prefix}f1": means[1],
        f"{prefix}total": len(pairs) if skips else len(group),
    }


def _best(
    walk: list[tuple[str, float]], golds: Golds, predictions: Mapping[str, str]
) -> tuple[float | None, str | None]:
    """Return the best score, and the last question that it answers; None: it answers none."""
    score = best = float(sum(not answers for answers in golds.values()))
    last = None
    for query_id, raw in walk:
        score += raw if golds[query_id] else -bool(predictions[query_id])
        if score > best:
            best, last = score, query_id
    return (100.0 * best / len(walk) if walk else None), last
