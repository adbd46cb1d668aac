"""``leaderboard --by`` with ``--metric``, and when pooling is advised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from tests.tiny_experiment import Tiny


def invoke(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """One retriever; documents in two languages; at top_k 5 less than half is judged."""
    tiny = Tiny(tmp_path_factory.mktemp("slices") / "tiny")
    tiny.config["top_k"] = [1, 3, 5]
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.write()
    tiny.replace("fares.md", "# Fares", "---\nlang: sv\n---\n# Fares")
    tiny.replace("harbours.md", "# Harbours", "---\nlang: en\n---\n# Harbours")
    result = invoke("evaluate", tiny.folder, "--store", tiny.root / "store")
    assert result.exit_code == 0, result.output
    return tiny


def by(tiny: Tiny, *options: object) -> Result:
    return invoke("leaderboard", tiny.folder, "--store", tiny.root / "store", *options)


def test_by_a_field_of_the_relevant_documents(tiny: Tiny) -> None:
    result = by(tiny, "--by", "document.lang", "--metric", "success@1", "--format", "json")
    rows = json.loads(result.stdout)
    of = {name: rows[0][name] for name in ("evaluation_id", "started")}
    assert rows == [
        {"document.lang": lang, "n_queries": 1, "retriever": "bm25", "hit_rate@1": 1.0, **of}
        for lang in ("en", "sv")
    ]


def test_a_metric_without_cut_off_takes_that_of_the_primary_one(tiny: Tiny) -> None:
    result = by(tiny, "--by", "tag", "--metric", "mrr")
    assert result.stdout.startswith("mrr@5 by query tag\n")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--metric", "mrr"), 2, "--metric belongs to --by; the leaderboard shows all metrics"),
        (
            ("--by", "tag", "--metric", "recall"),
            1,
            "the last evaluation of tiny has no cell of recall@5",
        ),
        (
            ("--by", "tag", "--metric", "mrr@4"),
            1,
            "the last evaluation of tiny has no cell of mrr@4",
        ),
        (("--by", "document.year"), 2, "no document has the field 'year'; allowed: lang"),
    ],
)
def test_what_cannot_be_shown(
    tiny: Tiny, options: tuple[str, ...], code: int, message: str
) -> None:
    result = by(tiny, *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"error: {message}\n"


def test_pooling_is_advised_where_less_than_half_is_judged(tiny: Tiny) -> None:
    result = invoke("evaluate", tiny.folder, "--store", tiny.root / "store", "--format", "json")
    (row,) = (row for row in json.loads(result.stdout) if row["top_k"] == 5)
    assert row["judged"] < 0.5
    (line,) = (line for line in result.stderr.splitlines() if "pooling would help" in line)
    assert line == (
        f"note: only {row['judged']:.0%} of what bm25 retrieved at top_k 5 is judged, the rest "
        f"counts as not relevant; pooling would help: rag-assets pool {tiny.folder} --out sheet.csv"
    )


def test_no_advice_where_enough_is_judged(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config |= {"top_k": [1], "primary": "mrr@1"}
    tiny.write()
    result = invoke("evaluate", tiny.folder, "--store", tiny.root / "store", "--format", "json")
    (row,) = json.loads(result.stdout)
    assert row["judged"] >= 0.5
    assert "pooling" not in result.stderr
