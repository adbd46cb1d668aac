"""Experiments with judges: one with a model, and one whose judge has errors that are known."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rag_assets.judges.answer_labels import drawn_questions
from rag_assets.pipeline.plan import Plan
from tests.answers.answering import PREDICTIONS, with_answers, write_predictions
from tests.llm.server import Server, Writer, says, serving
from tests.tiny_experiment import Tiny, planned

N = 160
IDS = tuple(f"n{number:03d}" for number in range(N))
SYSTEMS = ("plain", "fancy")

Answers = Mapping[str, Mapping[str, str]]
"""Answerer -> question -> answer."""


class Evaluated(NamedTuple):
    tiny: Tiny
    server: Server
    plan: Plan
    """What was told before."""
    n_asked: int


@contextmanager
def evaluating(
    root: Path,
    computed: Tiny,
    write: Writer,
    retrievers: Sequence[str] = ("bm25",),
    predictions: Mapping[str, str] = PREDICTIONS,
    unread: str | None = None,
    **changes: Any,
) -> Iterator[Evaluated]:
    """Evaluate answers of a file with judges that ask the models ``small`` and ``large``.

    What both say is ``write``; of a text that holds ``unread`` they give no verdict.
    """
    tiny = Tiny(root / "tiny").start_from(computed)
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in retrievers}
    with serving(write) as server:
        models = {
            name: {"base_url": server.base_url, "model": name, "api_key_env": None, "retries": 0}
            for name in ("small", "large")
        }
        answers = {"read": {"generator": "predicted"}}
        with_answers(tiny.write(), **{"llms": models, "answers": answers, **changes})
        write_predictions(tiny, dict(predictions))
        if unread is not None:
            server.on(unread, says("no score"))
        plan = planned(tiny)
        tiny.run()
        yield Evaluated(tiny, server, plan, len(server.received))


def asked(tiny: Tiny, server: Server) -> int:
    """Evaluate, and return how many requests that took."""
    before = len(server.received)
    tiny.run()
    return len(server.received) - before


def is_right(answer: str) -> bool:
    """What people say of an answer: each of these says itself whether it is right."""
    return answer.startswith("right")


def answers_of(shares: Mapping[str, float], seed: int = 0) -> dict[str, dict[str, str]]:
    drawn = random.Random(seed)
    return {
        name: {
            one: f"{'right' if drawn.random() < share else 'wrong'} {one} by {name}" for one in IDS
        }
        for name, share in shares.items()
    }


def fair(answer: str, number: int) -> bool:
    """A judge that errs on every tenth answer."""
    return is_right(answer) != (number % 10 == 0)


def likes_fancy(answer: str, number: int) -> bool:
    """A judge that takes every second wrong answer of ``fancy`` for right."""
    return is_right(answer) or ("by fancy" in answer and number % 2 == 0)


def with_judged(tiny: Tiny, answers: Answers, **changes: Any) -> Tiny:
    """Write questions, answers and a recorded judge; ``changes`` are keys of the YAML."""
    questions = [
        {"query_id": one, "text": f"what is the number {one}", "answers": [f"right {one}"]}
        for one in IDS
    ]
    tiny.write_rows("queries.jsonl", questions)
    (tiny.folder / "judgments.jsonl").unlink(missing_ok=True)
    for name, own in answers.items():
        (tiny.folder / f"{name}.json").write_text(json.dumps(own), encoding="utf-8")
    for name in ("primary", "baseline"):
        tiny.config.pop(name, None)
    tiny.config |= {
        "retrievers": {"bm25": {"type": "bm25", "chunking": "whole", "analyzer": "english"}},
        "generators": {name: {"type": "file", "path": f"{name}.json"} for name in answers},
        "answers": {name: {"generator": name} for name in answers},
        "judges": {
            "strict": {"type": "recorded", "path": "strict.jsonl", "judges": ["correctness"]}
        },
        **changes,
    }
    tiny.write_config()
    return tiny


def judge(tiny: Tiny, answers: Answers, says: Any = fair, name: str = "strict") -> None:
    rows = [
        {"query_id": one, "answer": own[one], "correct": says(own[one], number)}
        for own in answers.values()
        for number, one in enumerate(IDS)
    ]
    tiny.write_rows(
        f"{name}.jsonl", [json.loads(text) for text in dict.fromkeys(map(json.dumps, rows))]
    )


def label(tiny: Tiny, answers: Answers, n: int = 80, but: Collection[str] = ()) -> list[str]:
    """Write what people say of the answers to ``n`` drawn questions, ``but`` some answers."""
    drawn = drawn_questions({one: one for one in IDS}, n)
    rows = [
        {"query_id": one, "answer": own[one], "correct": is_right(own[one]), "probability": n / N}
        for one in drawn
        for own in answers.values()
        if own[one] not in but
    ]
    tiny.write_rows("answer_labels.jsonl", rows)
    return drawn
