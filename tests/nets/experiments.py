"""The small experiments that the nets read: between them, every kind of stage and every type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import yaml

from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.logs import append_lines
from tests.answers.answering import GOLDS, PREDICTIONS, write_predictions
from tests.labels.sampling.made_pool import drawn_line
from tests.llm.server import ordered, serving, vector
from tests.retrieval.external import loopback
from tests.retrieval.reranking import tiny_models
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

FILE = Path(__file__).with_name("experiments.yaml")
NEEDS_TORCH = ("embedding", "reranking", "open")
NAMES = tuple(yaml.safe_load(FILE.read_text(encoding="utf-8")))

_HITS = [{"id": name, "score": len(text)} for name, text in sorted(DOCUMENTS.items())]
_DATES = {name: f"202{number}-01-31" for number, name in enumerate(DOCUMENTS)}
_QUESTIONS = {
    "40 crowns": ("How much is a one-way trip for an adult?", "40 crowns"),
    "southern harbour": ("Until which storm is the south port open?", "25 metres"),
    "500 hours": ("How long until an engine gets fresh lubricant?", "500 hours"),
    "every Monday": ("On which weekday are vests looked after?", "Monday"),
    "six thirty": ("When is the earliest departure of a day?", "six thirty"),
    "30 days": ("How long do they hold what somebody forgot?", "30 days"),
    "police": ("Who gets travel documents that somebody left?", "police"),
}
"""Text of a passage -> question and answer."""


def reply(text: str) -> str:
    """Answer every prompt that the experiments send, as a model would."""
    if "Passages" in text or ("[1] " in text and "Query: " in text):
        return ordered(text) if re.search(r"^Query: ", text, re.M) else "10 crowns [1]"
    if '"filter"' in text:
        return '{"query": "last ferry", "filter": {"season": "winter"}}'
    if "final score" in text:
        return "Some reason.\n##final score: 1"
    if '"question"' in text:
        pairs = [pair for mark, pair in _QUESTIONS.items() if mark in text]
        return json.dumps([{"question": ask, "answer": answer} for ask, answer in pairs])
    return '["ferry in winter", "harbour"]' if "JSON" in text else "A ferry in winter [1]."


@contextmanager
def places(root: Path, *, torch: bool = True) -> Iterator[Mapping[str, str]]:
    """Serve models on loopback and save those of a few weights; return what stands for each."""
    made = {}
    if torch:
        texts = [*DOCUMENTS.values(), *(row["text"] for row in QUERIES)]
        made = {
            "<first>": str(save_static_model(root / "models/first", texts, seed=0)),
            "<second>": str(save_static_model(root / "models/second", texts, seed=1)),
            "<cross>": str(tiny_models.cross_encoder(root / "models/cross")),
            "<other cross>": str(tiny_models.cross_encoder(root / "models/cross2", seed=1)),
            "<mlm>": str(tiny_models.masked_language_model(root / "models/mlm")),
            "<other mlm>": str(tiny_models.masked_language_model(root / "models/mlm2", seed=1)),
        }

    def search(request: loopback.Request) -> loopback.Reply:
        asked = request.body or request.parameters
        return loopback.Reply({"hits": _HITS[: int(asked["k"])]})

    with serving(reply) as server, serving(reply) as other, loopback.serving(search) as hits:
        addresses = {"<server>": server.root, "<v1>": server.base_url, "<search>": hits.root}
        yield made | addresses | {"<other address>": other.root}


def build(name: str, root: Path, made: Mapping[str, str], *, is_labelled: bool = True) -> Tiny:
    """Write an experiment of ``experiments.yaml`` with its files, or without its judgments."""
    text = FILE.read_text(encoding="utf-8")
    for mark, place in made.items():
        text = text.replace(mark, place)
    block = yaml.safe_load(text)[name]
    files = block.pop("files", {})
    tiny = Tiny(root)
    tiny.config |= {"measurements": {"latency_sample": 0}, "top_k": [5], **block, "name": name}
    tiny.write()
    if "weight" in block:
        tiny.write_rows("queries.jsonl", [{**row, "count": i} for i, row in enumerate(QUERIES, 1)])
    if name in ("unlabelled", "open"):
        for key in ("primary", "baseline"):
            tiny.config.pop(key)
        (tiny.folder / "judgments.jsonl").unlink()
        tiny.write_config()
    if name == "unlabelled":
        (tiny.folder / "queries.jsonl").unlink()
    if not is_labelled:
        (tiny.folder / "judgments.jsonl").unlink(missing_ok=True)
    if name in _BESIDE:
        _BESIDE[name](tiny)
    for file, content in files.items():
        (tiny.folder / file).write_text(content, encoding="utf-8")
    return tiny


def _dates(tiny: Tiny) -> None:
    for number, (name, text) in enumerate(DOCUMENTS.items()):
        season = ("winter", "summer")[number % 2]
        head = f"---\ndate: {_DATES[name]}\nseason: {season}\n---\n"
        tiny.write_document(name, f"{head}{text}")


def _vectors(tiny: Tiny) -> None:
    queries = {row["query_id"]: row["text"] for row in QUERIES}
    for file, texts in (("chunks", DOCUMENTS), ("queries", queries)):
        for head in ("", "other_"):
            vectors = [np.array(vector(head + text), np.float32) for text in texts.values()]
            np.save(tiny.folder / f"{head}{file}.npy", np.stack(vectors))
            ids = "\n".join([*texts, *(["nobody"] if head else [])])
            (tiny.folder / f"{head}{file}.ids").write_text(ids, encoding="utf-8")


def _searches(tiny: Tiny) -> None:
    lines = [
        f"{query['query_id']} Q0 {name} {rank} {100 - rank} theirs\n"
        for query in QUERIES
        for rank, name in enumerate(DOCUMENTS, start=1)
    ]
    (tiny.folder / "run.trec").write_text("".join(lines), encoding="utf-8")
    for file, hits in (("search", _HITS), ("other", _HITS[:4])):
        with duckdb.connect(str(tiny.folder / f"{file}.duckdb")) as database:
            database.execute("CREATE TABLE hits (id VARCHAR, score INTEGER)")
            database.executemany("INSERT INTO hits VALUES (?, ?)", [[*h.values()] for h in hits])


def _answers(tiny: Tiny) -> None:
    rows: list[dict[str, Any]] = [{**row, "answers": GOLDS[row["query_id"]]} for row in QUERIES]
    tiny.write_rows(
        "queries.jsonl", [*rows, {"query_id": "q7", "text": "who sails", "answers": []}]
    )
    write_predictions(tiny, {**PREDICTIONS, "q7": ""})


def _drawn_labels(tiny: Tiny) -> None:
    """Draw passages from what is found, and grade half of them."""
    tiny.run()
    sampled = sampled_pool(tiny.pipeline(), 5)
    drawn = [sampled.design.items[number] for number in sampled.design.order()[:9]]
    append_lines(sampled.log, [drawn_line(item, i % 2) for i, item in enumerate(drawn)])


_BESIDE = {
    "filters": _dates,
    "embedding": _vectors,
    "external": _searches,
    "answers": _answers,
    "sample": _drawn_labels,
}
