"""What the span reader answers on SQuAD: from the gold paragraph, behind BM25, and at random.

    python benchmarks/answers_squad.py
    python benchmarks/answers_squad.py --negatives 0    # trained on its own paragraphs alone
    python benchmarks/answers_squad.py --train train-part.json --dev dev-v2.0.json --questions 757

The reader is trained on ``--train`` (a file in SQuAD's layout, of other articles), then answers
``--questions`` answerable questions of ``--dev``, drawn with ``--seed``, from: their own paragraph;
the first paragraph that the product's BM25 finds among all; the first three; one drawn at random;
and their own paragraph again with the best sentence in place of a span. EM and F1 are those of
SQuAD, maximum over the gold answers, in percent. Differences are paired; their intervals are
percentile bootstraps over the paragraphs that the questions were asked about (10,000 resamples).
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from data_sets import find
from span_reader import Example, SpanReader, train

from rag_assets.answers.answer_text import words
from rag_assets.answers.extractive import best_sentence
from rag_assets.answers.metrics import token_f1
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.statistics.units import Resampling, Units, blocks, on_grid, units_of

PAIRS = (("gold", "top 1"), ("gold", "top 3"), ("top 1", "top 3"), ("top 1", "random"))


@dataclass(frozen=True)
class Question:
    """A question, its paragraph's number, and its answers: (start, end) and text."""

    text: str
    paragraph: int
    answers: Sequence[tuple[int, int, str]]


def read(file: Path) -> tuple[list[str], list[Question]]:
    """Return the paragraphs of a SQuAD file and its answerable questions."""
    paragraphs: list[str] = []
    questions = []
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = [
                    (one["answer_start"], one["answer_start"] + len(one["text"]), one["text"])
                    for one in question["answers"]
                ]
                if answers:
                    questions.append(Question(question["question"], len(paragraphs), answers))
            paragraphs.append(paragraph["context"])
    return paragraphs, questions


def bm25(paragraphs: Sequence[str], questions: Sequence[str], depth: int) -> list[list[int]]:
    """Return the numbers of the first paragraphs that BM25 finds for each question."""
    names = [f"{number:06d}" for number in range(len(paragraphs))]
    retriever = BM25(type="bm25", analyzer="english")
    with tempfile.TemporaryDirectory() as folder:
        retriever.build(pa.table({"chunk_id": names}), list(paragraphs), Path(folder))
        searcher = retriever.open(Path(folder))
        hits = searcher.search(questions, depth, None)
        return [[int(searcher.chunk_ids[at]) for at in one.positions] for one in hits]


def resampled_means(units: Units, resampling: Resampling) -> np.ndarray:
    """Return the weighted means, shape (resamples, columns); NaN: none of the drawn has a value."""
    n_units, n_columns = units.sums.shape
    both = np.hstack([units.sums, units.weights])
    exact = on_grid(both, n_units * np.abs(both).max(axis=0))
    means = np.empty((resampling.resamples, n_columns))
    generator = resampling.generator()
    for start, end in blocks(resampling.resamples, n_units):
        drawn = generator.integers(0, n_units, size=(end - start, n_units))
        drawn += np.arange(end - start)[:, None] * n_units
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        sums, weights = np.hsplit(counts.astype(np.float64) @ exact, 2)
        means[start:end] = np.divide(
            sums, weights, out=np.full_like(sums, np.nan), where=weights > 0
        )
    return means


def interval(values: np.ndarray, clusters: Sequence[str]) -> str:
    """Return the mean of one value a question, with its interval."""
    units = units_of(values[:, None], np.ones(len(values)), clusters)
    low, high = np.quantile(resampled_means(units, Resampling()), (0.025, 0.975), axis=0)
    return f"{values.mean():+6.1f} [{low[0]:+.1f}, {high[0]:+.1f}]"


def contexts_of(
    questions: Sequence[Question], paragraphs: Sequence[str], draw: random.Random
) -> dict[str, list[list[str]]]:
    """Return what is read for each question, by the name of the context."""
    hits = bm25(paragraphs, [one.text for one in questions], 3)
    own = [[paragraphs[one.paragraph]] for one in questions]
    for depth in (1, 3):
        recall = np.mean(
            [one.paragraph in hit[:depth] for one, hit in zip(questions, hits, strict=True)]
        )
        click.echo(f"  BM25: recall@{depth} {recall:.3f}")
    return {
        "gold": own,
        "top 1": [[paragraphs[at] for at in hit[:1]] for hit in hits],
        "top 3": [[paragraphs[at] for at in hit] for hit in hits],
        "random": [[draw.choice(paragraphs)] for _ in questions],
        "best sentence, gold": own,
    }


def report(
    reader: SpanReader,
    questions: Sequence[Question],
    paragraphs: Sequence[str],
    draw: random.Random,
) -> None:
    """Print EM and F1 of each context, and the paired differences."""
    click.echo(f"{len(questions)} answerable questions")
    texts = [one.text for one in questions]
    values: dict[str, dict[str, np.ndarray]] = {}
    for name, contexts in contexts_of(questions, paragraphs, draw).items():
        started = time.process_time()
        if name.startswith("best sentence"):
            answers = [best_sentence(*both) for both in zip(texts, contexts, strict=True)]
        else:
            answers = reader.answers(texts, contexts)
        ms = (time.process_time() - started) * 1000 / len(questions)
        pairs = [
            [(words(gold), words(answer.text)) for *_, gold in one.answers]
            for one, answer in zip(questions, answers, strict=True)
        ]
        values[name] = {
            "EM": np.array([100.0 * any(gold == own for gold, own in one) for one in pairs]),
            "F1": np.array([100.0 * max(token_f1(*both) for both in one) for one in pairs]),
        }
        means = "  ".join(f"{metric} {own.mean():5.1f}" for metric, own in values[name].items())
        click.echo(f"  {name:<20} {means}  {ms:.1f} CPU ms a question")
    clusters = [f"{one.paragraph:06d}" for one in questions]
    for a, b in PAIRS:
        both = [(metric, values[a][metric] - values[b][metric]) for metric in ("EM", "F1")]
        shown = "   ".join(f"{metric} {interval(own, clusters)}" for metric, own in both)
        click.echo(f"  {a + ' - ' + b:<20} {shown}")


def main() -> None:
    """Train, answer, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help="SQuAD file; else that of the shared data")
    parser.add_argument("--dev", type=Path, help="SQuAD file; else that of the shared data")
    parser.add_argument("--questions", type=int, nargs="+", default=[400, 757])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--negatives", type=int, default=3, help="of the training; 0: none")
    arguments = parser.parse_args()
    train_paragraphs, train_questions = read(arguments.train or find("squad_train"))
    paragraphs, questions = read(arguments.dev or find("squad"))
    examples = [
        Example(
            one.text,
            train_paragraphs[one.paragraph],
            [(start, end) for start, end, _ in one.answers],
        )
        for one in train_questions
    ]
    started = time.process_time()
    reader = train(examples, negatives=arguments.negatives)
    seconds = time.process_time() - started
    click.echo(
        f"trained on {reader.n_questions} of {len(examples)} questions in {seconds:.0f} CPU s"
    )
    for n_questions in arguments.questions:
        draw = random.Random(arguments.seed)
        report(reader, draw.sample(questions, n_questions), paragraphs, draw)


if __name__ == "__main__":
    main()
