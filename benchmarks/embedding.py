"""How fast texts become vectors, beside plain ``SentenceTransformer.encode``.

    python benchmarks/embedding.py build/benchmarks/squad_answerable.json build/embedding.json
    python benchmarks/embedding.py SQUAD RESULT --texts 1000 --rounds 5 --threads 2

Real paragraphs of a SQuAD file, all-MiniLM-L6-v2, one process. In every round each system embeds
all texts once, one after the other, so that what else the machine does hits all of them:

- ``plain``: ``SentenceTransformer.encode`` with its defaults (fp32, batches of 32);
- ``float32``: ours, as an ``embedding`` retriever embeds by default;
- ``auto``: ours with ``precision: auto``, where the processor has instructions for bfloat16;
- ``looked_up``: ours where all texts are in the vector cache, with opening it.

Printed and written as JSON: seconds of wall and of CPU time, texts a second, the ratio to ``plain``
(median over rounds of the ratio within a round), cosines to the vectors of ``plain``, and how many
of the ten texts nearest to each text are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from rag_assets.embedding.encoder import Encoder
from rag_assets.embedding.models import DEFAULT_MODEL, resolve_model
from rag_assets.embedding.precision import CPUINFO, has_bfloat16, resolved
from rag_assets.package_versions import version

PACKAGES = ("numpy", "sentence-transformers", "tokenizers", "torch", "transformers")
NEAREST = 10

Vectors = npt.NDArray[np.float32]
System = Callable[[list[str]], Vectors]


def paragraphs(source: Path, n_texts: int) -> list[str]:
    """Return different paragraphs of a SQuAD file, spread evenly over it."""
    data = json.loads(source.read_text(encoding="utf-8"))["data"]
    texts = [one["context"] for article in data for one in article["paragraphs"]]
    unique = list(dict.fromkeys(texts))
    step = max(1, len(unique) // n_texts)
    return unique[::step][:n_texts]


def systems(cache: Path) -> dict[str, System]:
    """Return the systems, with their models loaded."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(resolve_model(DEFAULT_MODEL).path), local_files_only=True)
    found: dict[str, System] = {
        "plain": lambda texts: np.asarray(model.encode(texts, show_progress_bar=False)),
        "float32": lambda texts: Encoder().embed_now(texts, kind="document"),
    }
    if resolved("auto") != "float32":
        auto = Encoder(precision=resolved("auto"))
        found["auto"] = lambda texts: auto.embed_now(texts, kind="document")
    found["looked_up"] = lambda texts: Encoder(cache=cache).encode(texts, kind="document")
    return found


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


def machine() -> dict[str, Any]:
    """Return the processor, as far as the system tells."""
    import torch

    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "bfloat16_instructions": has_bfloat16(CPUINFO),
        "load_before": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def show(found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table."""
    click.echo(
        f"{'':10}{'texts/s':>9}{'wall':>10}{'CPU':>10}{'cosine: mean':>16}{'min':>12}{'same':>8}"
    )
    for name, row in found.items():
        ratios = f"{row['times_plain_wall']:9.2f}x{row['times_plain_cpu']:9.2f}x"
        cosines = f"{row['cosine_mean']:16.6f}{row['cosine_min']:12.6f}{row['same_nearest']:8.3f}"
        click.echo(f"{name:10}{row['texts_a_second']:9.1f}{ratios}{cosines}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; its own choice when absent")
    asked = parser.parse_args()
    import torch

    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    where, texts = machine(), paragraphs(asked.source, asked.texts)
    if not where["bfloat16_instructions"]:
        click.echo("this processor has no instructions for bfloat16: `auto` is float32 here")
    with TemporaryDirectory() as folder:
        times, vectors = measure(systems(Path(folder)), texts, asked.rounds)
    found = compared_to_plain(times, vectors, len(texts))
    show(found)
    told = {
        "texts": len(texts),
        "words_a_text": sum(len(text.split()) for text in texts) / len(texts),
        "rounds": asked.rounds,
        "model": DEFAULT_MODEL,
        "systems": found,
        "machine": where,
        "versions": {name: version(name) for name in PACKAGES},
    }
    asked.result.parent.mkdir(parents=True, exist_ok=True)
    asked.result.write_text(f"{json.dumps(told, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
