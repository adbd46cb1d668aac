"""How often questions that share documents raise a false alarm, and how often a difference shows.

    python benchmarks/shared_evidence.py [--samples N]

Two systems differ on each question by a normal deviate, and by the deviates of the question's
relevant documents (each 1 / sqrt(documents) of "document effect" large). Without a true difference
a test at level .05 should find one in at most .05 of the samples; with one of .3 standard
deviations, as often as possible. Printed are the test that takes questions for independent, and
that of `rag_assets.statistics.paired_differences`, on

- the questions of Cranfield and their relevant documents (`../shared/data/cranfield`), all 225 and
  the first 93;
- 93 made questions with 8 relevant documents on average of 11,429, few of which are popular;
- the same number of questions about few documents: groups that share all, and nothing between.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

import click
import numpy as np

from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.units import Counted, Floats, Resampling

CRANFIELD = Path(__file__).resolve().parents[2] / "shared" / "data" / "cranfield" / "qrels"
LEVEL, TRUE_DIFFERENCE, N_QUESTIONS = 0.05, 0.3, 93
N_DOCUMENTS, MEAN_DOCUMENTS, POPULARITY = 11_429, 8, 2.5

Documents = Sequence[Collection[str]]


def cranfield() -> Documents:
    """Return the relevant documents of each question."""
    documents: dict[str, list[str]] = {}
    for line in (CRANFIELD / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query_id, document_id, grade = line.split("\t")
        if int(grade) > 0:
            documents.setdefault(query_id, []).append(document_id)
    return list(documents.values())


def made(seed: int = 1) -> Documents:
    """Return questions whose documents are drawn, those with low numbers far more often."""
    random = np.random.default_rng(seed)
    sizes = random.lognormal(np.log(MEAN_DOCUMENTS) - 0.3, 0.8, N_QUESTIONS).astype(int) + 1
    return [
        {f"d{place}" for place in (N_DOCUMENTS * random.random(n) ** POPULARITY).astype(int)}
        for n in sizes
    ]


def groups(n_documents: int, n_questions: int = N_QUESTIONS) -> Documents:
    """Return questions with one document each, as many of each document."""
    return [{f"d{number % n_documents}"} for number in range(n_questions)]


def differences(
    documents: Documents, effect: float, true: float, samples: int, seed: int = 0
) -> Floats:
    """Return samples of differences of unit variance, shape (questions, samples)."""
    random = np.random.default_rng(seed)
    names = {name: i for i, name in enumerate(sorted(set().union(*documents)))}
    values = random.normal(size=(len(documents), samples))
    of_documents = random.normal(size=(len(names), samples))
    for number, own in enumerate(documents):
        places = [names[name] for name in own]
        values[number] += effect * of_documents[places].sum(axis=0) / len(places) ** 0.5
    shared: Floats = values / (1 + effect**2) ** 0.5 + true
    return shared


def found(documents: Documents, values: Floats) -> tuple[float, float]:
    """Return in which share of the samples a test finds a difference: independent, and ours."""
    names = tuple(f"q{number:04}" for number in range(len(documents)))
    shares = []
    for own in (None, tuple(tuple(each) for each in documents)):
        counted = Counted("all", names, np.ones(len(names)), names, own)
        p_values = PairedDifferences(counted, values).p_values(Resampling(resamples=1000))
        shares.append(float(np.mean([p is not None and p < LEVEL for p in p_values])))
    return shares[0], shares[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print false alarms and power, a line a sharing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    samples = parser.parse_args(arguments).samples
    sharings = {"20 documents": groups(20), "5 documents": groups(5), "made, few popular": made()}
    if CRANFIELD.exists():
        every = cranfield()
        sharings |= {"Cranfield": every, "Cranfield, 93": every[:N_QUESTIONS]}
    click.echo(f"{samples} samples; each cell: independent, allowing for what is shared\n")
    cases = {"no effect": (0.0, 0.0), "effect 1": (1.0, 0.0), "power": (0.0, TRUE_DIFFERENCE)}
    click.echo(f"{'':20}" + "".join(f"{name:>16}" for name in cases))
    for name, documents in sharings.items():
        shares = [
            found(documents, differences(documents, effect, true, samples))
            for effect, true in cases.values()
        ]
        cells = "".join(f"{f'{alone:.3f} {ours:.3f}':>16}" for alone, ours in shares)
        click.echo(f"{name:20}{cells}")


if __name__ == "__main__":
    main()
