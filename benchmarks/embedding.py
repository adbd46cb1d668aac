"""How fast texts become vectors, beside plain ``SentenceTransformer.encode``.

    python benchmarks/embedding.py
    python benchmarks/embedding.py --texts 1000 --rounds 5 --threads 2
    python benchmarks/embedding.py --quick

Real paragraphs of a SQuAD file, all-MiniLM-L6-v2, one process. In every round each system embeds
all texts once, one after the other, so that what else the machine does hits all of them:

- ``plain``: ``SentenceTransformer.encode`` with its defaults (fp32, batches of 32);
- ``float32``: ours, as an ``embedding`` retriever embeds by default;
- ``looked_up``: ours where all texts are in the vector cache, with opening it.

Of each: seconds of wall and of CPU time, texts a second, the ratio to ``plain`` (median over rounds
of the ratio within a round), cosines to the vectors of ``plain``, and how many of the ten texts
nearest to each text are the same.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import data_sets
import numpy as np
import numpy.typing as npt
from result import Result, Table

from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model

PACKAGES = ("numpy", "sentence-transformers", "tokenizers", "torch", "transformers")
NEAREST = 10
QUICK = Path("build/benchmarks/embedding.quick.json")

Vectors = npt.NDArray[np.float32]
System = Callable[[list[str]], Vectors]


def paragraphs(source: Path, n_texts: int) -> list[str]:
    """Return different paragraphs of a SQuAD file, spread evenly over it."""
    articles = json.loads(source.read_text(encoding="utf-8"))["data"]
    texts = [one["context"] for article in articles for one in article["paragraphs"]]
    unique = list(dict.fromkeys(texts))
    step = max(1, len(unique) // n_texts)
    return unique[::step][:n_texts]


def systems(cache: Path) -> dict[str, System]:
    """Return the systems, with their models loaded."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(resolve_model(DEFAULT_MODEL).path), local_files_only=True)
    return {
        "plain": lambda texts: np.asarray(model.encode(texts, show_progress_bar=False)),
        "float32": lambda texts: Encoder().encode(texts, kind="document"),
        "looked_up": lambda texts: Encoder(cache=cache).encode(texts, kind="document"),
    }


def measure(
    compared: Mapping[str, System], texts: list[str], rounds: int
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, Vectors]]:
    """Return the seconds of wall and CPU time of each system in each round, and its vectors."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in compared}
    vectors = {name: system(texts) for name, system in compared.items()}  # warm; fills the cache
    for _ in range(rounds):
        for name, system in compared.items():
            wall, cpu = time.perf_counter(), time.process_time()
            system(texts)
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return times, vectors


def nearest(vectors: Vectors) -> list[set[int]]:
    """Return the texts nearest to each text."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2.0)
    return [set(row) for row in np.argsort(-cosines, axis=1)[:, :NEAREST].tolist()]


def compared_to_plain(
    times: Mapping[str, list[tuple[float, float]]], vectors: Mapping[str, Vectors], n_texts: int
) -> dict[str, dict[str, float]]:
    """Return what is reported of each system."""
    plain, near = vectors["plain"], nearest(vectors["plain"])
    found = {}
    for name, own in times.items():
        cosines = np.sum(plain.astype(np.float64) * vectors[name], axis=1)
        same = [len(a & b) / NEAREST for a, b in zip(near, nearest(vectors[name]), strict=True)]
        pairs = list(zip(times["plain"], own, strict=True))
        found[name] = {
            "wall_seconds": median(wall for wall, _ in own),
            "cpu_seconds": median(cpu for _, cpu in own),
            "texts_a_second": median(n_texts / wall for wall, _ in own),
            "times_plain_wall": median(base[0] / one[0] for base, one in pairs),
            "times_plain_cpu": median(base[1] / one[1] for base, one in pairs),
            "cosine_mean": float(cosines.mean()),
            "cosine_min": float(cosines.min()),
            "same_nearest": float(np.mean(same)),
        }
    return found


def table(found: Mapping[str, Mapping[str, float]], n_texts: int, words: float) -> Table:
    """Return a row a system."""
    measured = list(found["plain"])
    return Table(
        f"{n_texts} paragraphs of {words:.0f} words on average, all-MiniLM-L6-v2. "
        "`times_plain` says how many times faster than plain `SentenceTransformer.encode` a "
        "system is. Cosines compare its vectors with the plain ones. `same_nearest` is the share "
        "of the ten nearest texts that are the same.",
        ["system", *measured],
        [[name, *(row[column] for column in measured)] for name, row in found.items()],
    )


def notes(threads: int, rounds: int) -> list[str]:
    """Return what a reader of the table needs."""
    return [
        f"{threads} thread{'s' if threads > 1 else ''} of torch, {rounds} rounds.",
        "If a run is killed, it loses at most the last 2,000 texts or 60 seconds of embedding; "
        "the next run goes on from there (`tests/models/test_encoder.py`).",
    ]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; its own choice when absent")
    parser.add_argument("--quick", action="store_true", help="24 texts, one round")
    asked = parser.parse_args()
    source = data_sets.find("squad")
    import torch

    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    n_texts, rounds = (24, 1) if asked.quick else (asked.texts, asked.rounds)
    texts = paragraphs(source, n_texts)
    with TemporaryDirectory() as folder:
        times, vectors = measure(systems(Path(folder)), texts, rounds)
    found = compared_to_plain(times, vectors, len(texts))
    words = sum(len(text.split()) for text in texts) / len(texts)
    result = Result("embedding", "Embedding", "python benchmarks/embedding.py")
    result.tables.append(table(found, len(texts), words))
    result.notes += notes(torch.get_num_threads(), rounds)
    result.of_packages(PACKAGES)
    result.write(QUICK if asked.quick else None)


if __name__ == "__main__":
    main()
