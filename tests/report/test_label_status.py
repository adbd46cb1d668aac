"""What ``label --status`` says, against a computation of its own, and the page beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.append_log import append_lines
from rag_assets.labels.page.server import LabelPage
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.report.label_status import LabelStatus, status_sheets
from rag_assets.report.terminal_table import sheets_view
from tests.labels.page.served import session_of
from tests.labels.sampling.made_pool import DCG, asked, collection, design_of, drawn_line
from tests.tiny_experiment import Tiny

POOL, LABELS = collection(noises=(0.8, 1.0, 2.0))
N = len(POOL.question_ids)
SECONDS = 12.0


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    tiny = Tiny(tmp_path_factory.mktemp("status"))
    tiny.config |= {"metrics": ["dcg"], "primary": "dcg@10"}
    return tiny.write().pipeline().experiment


def sample_of(n: int) -> LabelSample:
    return asked(POOL, LABELS, design_of(POOL), n)


def lines_of(sample: LabelSample) -> list[LoggedJudgment]:
    items = [POOL.items[number] for number in np.flatnonzero(sample.judged)]
    return [LoggedJudgment(*item, 1, probability=0.5, seconds=SECONDS) for item in items]


def status_of(experiment: Experiment, n: int) -> LabelStatus:
    sample = sample_of(n)
    return LabelStatus.of(experiment, sample, lines_of(sample), 10, None)


def shown(experiment: Experiment, n: int, width: int = 120) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(sheets_view(status_sheets(experiment.name, status_of(experiment, n))))
    return capture.get()


def test_values_are_horvitz_thompson_of_residuals(experiment: Experiment) -> None:
    """Computed item by item, with the working values alone taken from the library."""
    from rag_assets.labels.sampling.estimates import Estimator

    sample = sample_of(4 * N)
    working = Estimator(sample, DCG).working.values
    p, weights = sample.probabilities(), POOL.weights(DCG)
    want = {}
    for number, name in enumerate(POOL.systems):
        total = 0.0
        for item in range(len(POOL.items)):
            total += weights[number, item] * working[item]
            if sample.judged[item]:
                total += weights[number, item] * (LABELS[item] - working[item]) / p[item]
        want[name] = total / N
    rows = [row for row in status_of(experiment, 4 * N).standing.estimates]
    assert {str(row["retriever"]): row["value"] for row in rows} == pytest.approx(want)
    values = [float(str(row["value"])) for row in rows]
    assert values == sorted(values, reverse=True)
    for row in rows:
        low, high, wide_low, wide_high = (
            float(str(row[name]))
            for name in ("items_low", "items_high", "questions_low", "questions_high")
        )
        assert wide_low <= low < float(str(row["value"])) < high <= wide_high


def test_differences_are_those_of_the_estimates(experiment: Experiment) -> None:
    now = status_of(experiment, 4 * N).standing
    values = {row["retriever"]: float(str(row["value"])) for row in now.estimates}
    assert len(now.differences) == 3
    for row in now.differences:
        want = values[row["retriever_a"]] - values[row["retriever_b"]]
        assert row["value"] == pytest.approx(want)
        assert want >= 0
        low, high = float(str(row["low"])), float(str(row["high"]))
        assert row["decided"] == (low > 0 or high < 0)
        assert row["outside"] == (not low <= want <= high)
        if not row["decided"]:
            judgments = [int(str(row[f"more_judgments_{end}"])) for end in ("low", "high")]
            assert 1 <= judgments[0] <= judgments[1] <= len(LABELS) - 4 * N
            minutes = [int(np.ceil(one * SECONDS / 60)) for one in judgments]
            assert [row["more_minutes_low"], row["more_minutes_high"]] == minutes


def test_before_the_first_judgment_nothing_is_estimated(experiment: Experiment) -> None:
    status = status_of(experiment, 0)
    assert status.standing.estimates == ()
    assert status.as_row()["more_judgments_low"] is None
    assert "nothing is estimated yet" in shown(experiment, 0)


def test_with_all_judged_everything_is_decided(experiment: Experiment) -> None:
    status = status_of(experiment, len(LABELS))
    truth = POOL.weights(DCG) @ LABELS / N
    for row in status.standing.estimates:
        number = POOL.systems.index(str(row["retriever"]))
        assert row["value"] == pytest.approx(truth[number])
        assert row["items_low"] == pytest.approx(row["items_high"])
        assert float(str(row["questions_low"])) < truth[number]
    assert all(row["decided"] and not row["outside"] for row in status.standing.differences)
    assert (status.standing.more_judgments_low, status.standing.more_judgments_high) == (0, 0)
    assert "3 of 3 differences are decided\n" in shown(experiment, len(LABELS))


def test_both_targets_and_the_price_are_named(experiment: Experiment) -> None:
    text = shown(experiment, 2 * N)
    for said in ("these questions", "questions", "however often", "effective", "dcg@10"):
        assert said in text
    assert "66 % of the pairs more than 5 % apart" in " ".join(text.split())
    row = status_of(experiment, 2 * N).as_row()
    assert row["targets"] == {
        "items": "these questions and this pool",
        "questions": "questions like these",
    }
    metrics = list(dict.fromkeys(one["metric"] for one in row["estimates"]))  # type: ignore[attr-defined]
    assert metrics == ["dcg@10", "precision@10", "pool_recall@10"]


def test_a_metric_that_is_no_sum_is_said_not_to_be_estimated(experiment: Experiment) -> None:
    other = replace(experiment, primary=Metric("ndcg", 10))
    sample = sample_of(2 * N)
    status = LabelStatus.of(other, sample, lines_of(sample), 10, None)
    assert any("ndcg@10 is no sum over passages" in note for note in status.notes)
    assert {row["metric"] for row in status.standing.estimates} == {"dcg@10"}


def test_an_estimate_outside_of_its_interval_is_told(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_assets.labels.sampling import standing
    from rag_assets.labels.sampling.confidence_sequence import decisions

    def shifted(*args: object, **named: object) -> object:
        found = decisions(*args, **named)  # type: ignore[arg-type]
        return {pair: one._replace(value=one.high + 1) for pair, one in found.items()}

    monkeypatch.setattr(standing, "decisions", shifted)
    text = " ".join(shown(experiment, 4 * N).split())
    assert "the estimate lies outside the interval that earlier looks allow: s0 - s1" in text


def test_the_page_says_the_same(tmp_path: Path, experiment: Experiment) -> None:
    session = session_of(tmp_path / "labelling.jsonl")
    order = [session.pool.items[number] for number in session.design.order()]
    answers = [drawn_line(item, n % 3) for n, item in enumerate(order[:6])]
    append_lines(session.log, answers)
    metric = Metric("dcg", 4)
    page = LabelPage(session, session.passages.literal, metric, "ada")._standing()
    sample, lines = session.sample()
    status = LabelStatus.of(replace(experiment, primary=metric), sample, lines, 4, None).as_row()
    own = [row for row in status["estimates"] if row["metric"] == "dcg@4"]  # type: ignore[attr-defined]
    assert list(page["estimates"]) == own
    for name in ("differences", "targets", "more_judgments_low", "more_judgments_high"):
        assert page[name] == status[name]
    assert page["price"] in status["notes"]  # type: ignore[operator]
