"""Write a SQuAD file with some of its questions; every paragraph stays, so the search is as hard.

    python benchmarks/squad_subset.py dev-v2.0.json answerable.json
    python benchmarks/squad_subset.py dev-v2.0.json sample.json --questions 150 --seed 0
    python benchmarks/squad_subset.py dev-v2.0.json sample.json --questions 60 --articles

Kept are the questions that have an answer; of these ``--questions`` are drawn at random, each with
the same chance. The same file, number and seed give the same bytes. With ``--articles`` every
paragraph has the title of its article as a field, ``article``, that a filter can ask for.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any


def questions_with_an_answer(data: list[dict[str, Any]]) -> list[str]:
    """Return the ids, in the order of the file."""
    return [
        question["id"]
        for article in data
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if question["answers"]
    ]


def with_questions(data: list[dict[str, Any]], kept: set[str]) -> list[dict[str, Any]]:
    """Return all articles and paragraphs, with those of their questions that are kept."""
    return [
        {
            **article,
            "paragraphs": [
                {**one, "qas": [question for question in one["qas"] if question["id"] in kept]}
                for one in article["paragraphs"]
            ],
        }
        for article in data
    ]


def with_articles(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all articles; each paragraph says which one it is of."""
    return [
        {**one, "paragraphs": [{**part, "article": one["title"]} for part in one["paragraphs"]]}
        for one in data
    ]


def main() -> None:
    """Read one file, write the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--questions", type=int, help="so many of them; all when absent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--articles", action="store_true")
    asked = parser.parse_args()
    content = json.loads(asked.source.read_text(encoding="utf-8"))
    ids = questions_with_an_answer(content["data"])
    if asked.questions is not None:
        ids = random.Random(asked.seed).sample(sorted(ids), asked.questions)
    data = with_questions(content["data"], set(ids))
    if asked.articles:
        data = with_articles(data)
    asked.target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": content.get("version", ""), "data": data}, ensure_ascii=False)
    asked.target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
