"""Formats of ours keep the contract that those of other packages inherit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assets.testing import FormatContract
from rag_assets.testing.formats import Example

LLAMAINDEX = {
    "queries": {"q1": "what is salt", "\u6e2f": "?"},
    "corpus": {"d1": "Salt is NaCl.", "d2": "\u6e2f"},
    "relevant_docs": {"q1": ["d1"]},
}
SQUAD = {
    "data": [
        {
            "title": "Salt",
            "paragraphs": [
                {
                    "context": "Salt is NaCl.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "what is salt",
                            "answers": [{"text": "NaCl", "answer_start": 8}],
                        }
                    ],
                }
            ],
        }
    ]
}
QUERY = '{"query_id": "q1", "text": "what is salt"}\n'
JUDGMENT = '{"query_id": "q1", "doc_id": "d1", "quote": "NaCl"}\n'

FILES: Mapping[str, Mapping[str, str]] = {
    "llamaindex": {"data.json": json.dumps(LLAMAINDEX)},
    "squad": {"data.json": json.dumps(SQUAD)},
    "beir": {
        "corpus.jsonl": '{"_id": "d1", "title": "", "text": "Salt is NaCl."}\n',
        "queries.jsonl": '{"_id": "q1", "text": "what is salt"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    },
    "trec": {
        "corpus.tsv": "d1\tSalt is NaCl.\n",
        "queries.tsv": "q1\twhat is salt\n",
        "qrels.txt": "q1 0 d1 1\n",
    },
    "jsonl": {
        "documents.jsonl": '{"doc_id": "d1", "title": "", "text": "Salt is NaCl."}\n',
        "queries.jsonl": QUERY,
        "judgments.jsonl": JUDGMENT,
    },
    "csv": {
        "documents.csv": "doc_id,title,text\nd1,,Salt is NaCl.\n",
        "queries.jsonl": QUERY,
        "judgments.jsonl": JUDGMENT,
    },
    "markdown": {
        "d1.md": "Salt is NaCl.\n",
        "queries.jsonl": QUERY,
        "judgments.jsonl": JUDGMENT.replace('"d1"', '"d1.md"'),
    },
}


class TestEveryFormat(FormatContract):
    @pytest.fixture(params=FILES)
    def example(self, request: pytest.FixtureRequest, tmp_path: Path) -> Example:
        folder = tmp_path / "data"
        for name, text in FILES[request.param].items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        is_file = "data.json" in FILES[request.param]
        return Example(request.param, folder / "data.json" if is_file else folder)
