"""The tiny experiment with right answers, predictions and answerers."""

from __future__ import annotations

import json
from typing import Any

from tests.tiny_experiment import QUERIES, Tiny

GOLDS = {
    "q1": ["10 crowns"],
    "q2": ["when the wind exceeds 25 metres per second"],
    "q3": ["beside the bridge"],
    "q4": ["with foam", "foam"],
    "q5": ["at nine in the evening"],
    "q6": ["after 500 hours"],
}

PREDICTIONS = {"q1": "10 crowns", "q2": "in the wind", "q3": "", "q4": "Foam!", "q6": "500 hours"}
"""Right, wrong, refused, right, missing, nearly right."""

UNANSWERABLE = {"query_id": "q7", "text": "who is the captain", "tags": ["unanswerable"]}

CONFIG: dict[str, Any] = {
    "generators": {"predicted": {"type": "file", "path": "predictions.json"}},
    "answers": {
        "official": {"generator": "predicted"},
        "read": {"generator": "predicted", "retriever": "bm25"},
        "edges": {"generator": "predicted", "retriever": "hybrid", "top_k": [5], "order": "edges"},
        "gold": {"generator": "predicted", "context": "gold", "chunking": "parts"},
        "none": {"generator": "predicted", "context": "none"},
        "random": {"generator": "predicted", "context": "random", "retriever": "bm25"},
    },
}


def with_answers(tiny: Tiny, **changes: Any) -> Tiny:
    """Add right answers, an unanswerable question, a file of predictions and answerers."""
    rows = [{**row, "answers": GOLDS[row["query_id"]]} for row in QUERIES]
    tiny.write_rows("queries.jsonl", [*rows, {**UNANSWERABLE, "answers": []}])
    write_predictions(tiny, {**PREDICTIONS, "q7": ""})
    tiny.config |= {**json.loads(json.dumps(CONFIG)), **changes}
    tiny.write_config()
    return tiny


def write_predictions(tiny: Tiny, predictions: dict[str, str]) -> None:
    (tiny.folder / "predictions.json").write_text(json.dumps(predictions), encoding="utf-8")
