"""Train a small cross-encoder on SQuAD, and measure it on articles that it has never seen.

    python benchmarks/rerank.py build/benchmarks/squad_answerable.json build/rerank

No package index has a cross-encoder, so this makes one from the weights of all-MiniLM-L6-v2:

1. a third of the articles is held out (a seed fixes which); 2,000 questions of the others, each
   with its own paragraph and two others that BM25 finds among its first 20, are 6,000 pairs;
2. one epoch over them, 192 tokens a pair: of the three, the right one gets the highest logit
   (softmax cross-entropy over the group); in bf16 where the CPU has instructions for it;
3. the model is saved as a folder, and ``rag-assets evaluate`` and ``compare`` measure, on 150
   questions of the held-out articles over *all* paragraphs, BM25 and its first 20 reranked by the
   cross-encoder (``cross_encoder``), and by late interaction with the untrained weights
   (``maxsim``).

Everything is printed by the product; nothing here computes a metric.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from squad_subset import questions_with_an_answer, with_questions

from rag_assets import evaluate
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model

HELD_OUT = 1 / 3
TRAIN_QUESTIONS, TEST_QUESTIONS = 2_000, 150
TEXTS = 3  # a group: the right paragraph, and others that BM25 takes for it
MAX_LENGTH, GROUPS, WARM_UP = 192, 5, 0.1
RATE, HEAD_RATE = 1e-4, 1e-3  # the last layer is new
SEED, SHOWN = 0, 25

MINE = """
name: mine
dataset: {path: train.json, format: squad, judge: document}
retrievers: {bm25: {type: bm25, analyzer: english}}
top_k: [20]
"""
COMPARE = """
name: rerank
dataset: {path: held_out.json, format: squad, judge: document}
retrievers:
  bm25: {type: bm25, analyzer: english}
  cross_encoder:
    {type: cross_encoder, input: bm25, candidates: 20, model: MODEL, max_length: 256}
  maxsim: {type: maxsim, input: bm25, candidates: 20}
top_k: [1, 10]
metrics: [hit_rate, mrr, ndcg, recall]
primary: ndcg@10
baseline: bm25
statistics: {cluster: document}
"""

Group = tuple[str, list[str]]
"""A question, and its paragraph followed by others."""


def write_squad(path: Path, data: list[dict[str, Any]], questions: list[str]) -> None:
    """Write a SQuAD file with all paragraphs of ``data`` and these questions."""
    content = {"version": "", "data": with_questions(data, set(questions))}
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def split(source: Path, folder: Path) -> None:
    """Write ``train.json`` and ``held_out.json``."""
    data = json.loads(source.read_text(encoding="utf-8"))["data"]
    drawn = random.Random(SEED)
    titles = sorted(article["title"] for article in data)
    held = set(drawn.sample(titles, round(len(titles) * HELD_OUT)))
    train = [article for article in data if article["title"] not in held]
    test = [article for article in data if article["title"] in held]
    asked = drawn.sample(sorted(questions_with_an_answer(train)), TRAIN_QUESTIONS)
    write_squad(folder / "train.json", train, asked)
    asked = drawn.sample(sorted(questions_with_an_answer(test)), TEST_QUESTIONS)
    write_squad(folder / "held_out.json", data, asked)
    click.echo(f"articles: {len(train)} to train, {len(test)} held out: {', '.join(sorted(held))}")


def groups(folder: Path) -> list[Group]:
    """Return each training question with its paragraph and others that BM25 takes for it."""
    (folder / "mine.yaml").write_text(MINE, encoding="utf-8")
    result = evaluate(folder / "mine.yaml", folder / "store")
    texts = {row["document_id"]: row["text"] for row in result.table_of("documents").to_pylist()}
    right = {row["query_id"]: row["document_id"] for row in result.table_of("qrels").to_pylist()}
    found = defaultdict(list)
    for row in result.table(result.run_keys("bm25")[20]).to_pylist():
        if row["document_id"] != right[row["query_id"]]:
            found[row["query_id"]].append(row["document_id"])
    drawn, made = random.Random(SEED), list[Group]()
    for query in sorted(result.queries.to_pylist(), key=lambda row: row["query_id"]):
        own, others = right[query["query_id"]], found[query["query_id"]]
        if len(others) >= TEXTS - 1:
            ids = [own, *drawn.sample(others, TEXTS - 1)]
            made.append((query["text"], [texts[one] for one in ids]))
    drawn.shuffle(made)
    return made


def batches(made: list[Group]) -> Iterator[list[Group]]:
    """Yield groups that are read at once."""
    for start in range(0, len(made), GROUPS):
        yield made[start : start + GROUPS]


def train(made: list[Group], folder: Path) -> None:
    """Fine-tune for one epoch with a linear schedule, and save the model."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(SEED)
    source = resolve_model(DEFAULT_MODEL).path
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForSequenceClassification.from_pretrained(
        source, num_labels=1, dtype=torch.float32
    )
    model.train()
    steps = math.ceil(len(made) / GROUPS)
    head = list(model.classifier.parameters())
    body = [one for name, one in model.named_parameters() if not name.startswith("classifier.")]
    optimiser = torch.optim.AdamW(
        [{"params": body, "lr": RATE}, {"params": head, "lr": HEAD_RATE}], weight_decay=0.01
    )
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min((step + 1) / (WARM_UP * steps), (steps - step) / steps / (1 - WARM_UP), 1),
    )
    losses, right = list[float](), list[float]()
    for number, batch in enumerate(batches(made), 1):
        pairs = [(question, text) for question, texts in batch for text in texts]
        read = tokenizer(
            *map(list, zip(*pairs, strict=True)),
            padding=True,
            truncation="longest_first",
            max_length=MAX_LENGTH,
            return_tensors="pt",
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
            logits = model(**read).logits.float().view(len(batch), TEXTS)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(len(batch), dtype=torch.long))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        rate.step()
        optimiser.zero_grad()
        losses.append(loss.item())
        right.append((logits.argmax(1) == 0).float().mean().item())
        if number % SHOWN == 0 or number == steps:
            shown = [fmean(values[-SHOWN:]) for values in (losses, right)]
            click.echo(f"step {number}/{steps}: loss {shown[0]:.3f}, right {shown[1]:.3f}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def command(folder: Path, *arguments: str) -> None:
    """Run the command line on the comparison, with its output to ours, and its errors as ours."""
    program = [sys.executable, "-m", "rag_assets.cli", *arguments[:1], str(folder / "rerank.yaml")]
    program += ["--store", str(folder / "store"), *arguments[1:]]
    done = subprocess.run(program, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)


def main() -> None:
    """Split, train, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    split(asked.source, folder)
    made, model = groups(folder), folder / "cross-encoder"
    click.echo(f"{len(made)} groups, {len(made) * TEXTS} pairs")
    if not (model / "model.safetensors").is_file():
        started = time.perf_counter()
        train(made, model)
        click.echo(f"trained in {time.perf_counter() - started:.0f} s; saved to {model}")
    yaml = COMPARE.replace("MODEL", json.dumps(str(model)))
    (folder / "rerank.yaml").write_text(yaml, encoding="utf-8")
    command(folder, "evaluate")
    for metric in ("ndcg@10", "mrr@10"):
        command(folder, "compare", "--metric", metric, "--format", "markdown")


if __name__ == "__main__":
    main()
