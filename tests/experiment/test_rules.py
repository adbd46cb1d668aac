"""Rules between blocks of an experiment: answers, judges, models, grids, tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.config import ChecksConfig, DriftConfig, ScheduleConfig
from rag_assets.experiment.grids import MAX_MEMBERS
from rag_assets.judges.base import CORRECTNESS, RELEVANCE
from rag_assets.pipeline.evaluation_record import configuration_of
from rag_assets.retrieval.fusion.base import FusedRetriever
from tests.answers.answering import with_answers
from tests.experiment.conftest import Load, Problem
from tests.tiny_experiment import Tiny


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path).write()


def configured(tiny: Tiny, **judge: Any) -> Tiny:
    tiny.config["judges"] = {"one": judge}
    tiny.write_config()
    return tiny


def test_a_judge_judges_what_there_is(tiny: Tiny) -> None:
    configured(tiny, type="words")
    experiment = load_experiment(tiny.folder)
    assert (experiment.judges["one"].judges, experiment.judged_depth) == (("relevance",), 5)
    with_answers(tiny)
    experiment = load_experiment(tiny.folder)
    assert experiment.judges_of(RELEVANCE) == experiment.judges_of(CORRECTNESS) == ("one",)
    configured(tiny, type="words", judges=["correctness"])
    experiment = load_experiment(tiny.folder)
    assert (experiment.judges_of(RELEVANCE), experiment.judged_depth) == ((), 0)


@pytest.mark.parametrize("names", [{"metrics": ["ndcg", "tn"]}, {"primary": "tn@5"}])
def test_all_units_are_counted_only_where_they_are_known(tiny: Tiny, names: dict[str, Any]) -> None:
    tiny.config |= {"metrics": ["ndcg"], **names}
    tiny.write_config()
    load_experiment(tiny.folder)
    search = {"type": "http", "url": "https://e.org/s", "body": {"q": "{query}"}, "hits": "hits"}
    tiny.config["retrievers"]["search"] = {**search, "id": "id", "revision": "1"}
    tiny.config["retrievers"]["both"] = {"type": "rrf", "inputs": ["bm25", "search"]}
    tiny.write_config()
    (key, name) = ("primary", "tn@5") if "primary" in names else ("metrics", "tn")
    problem = f"`{key}`: {name} needs the number of units that a retriever can return"
    with pytest.raises(ConfigError, match=rf"{problem}, which is not known of 'search'"):
        load_experiment(tiny.folder)


def test_without_labels_judged_passages_are_read_all_the_same(tiny: Tiny) -> None:
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.config["metrics"] = ["hit_rate"]
    assert not load_experiment(tiny.folder).measures_texts
    assert load_experiment(configured(tiny, type="words").folder).measures_texts


@pytest.mark.parametrize(
    ("top_k", "depth", "cutoffs"),
    [
        ([1, 3, 5, 10, 100], 5, (1, 3, 5)),
        ([1, 3, 10, 100], 5, (1, 3, 10)),
        ([10, 100], 5, (10,)),
        ([3, 5], 5, (3, 5)),
    ],
)
def test_runs_are_judged_down_to_the_first_that_is_deep_enough(
    tiny: Tiny, top_k: list[int], depth: int, cutoffs: tuple[int, ...]
) -> None:
    del tiny.config["retrievers"]["shallow"]
    tiny.config |= {"top_k": top_k, "primary": f"ndcg@{top_k[0]}"}
    experiment = load_experiment(configured(tiny, type="words", depth=depth).folder)
    assert experiment.judged_cutoffs == experiment.passage_cutoffs == cutoffs


def test_all_runs_are_judged_where_ranks_depend_on_the_cutoff(tiny: Tiny) -> None:
    tiny.config["top_k"] = [1, 3, 5, 50]
    experiment = load_experiment(configured(tiny, type="words", depth=3).folder)
    assert experiment.judged_cutoffs == (1, 3, 5, 50)


@pytest.mark.parametrize(
    ("judge", "problem"),
    [
        ({"type": "wrds"}, "`judges.one.type`: unknown type 'wrds' (did you mean 'words'?)"),
        ({"type": "words", "deep": 3}, "`judges.one.deep`: unknown key 'deep' (did you mean"),
        ({"type": "words", "depth": 6}, "is 6, and the deepest run has 5; allowed: 1 to 5"),
        ({"type": "words", "judges": ["style"]}, "or 'answer_relevance'; found 'style'"),
        ({"type": "words", "judges": ["correctness"]}, "the experiment has none; add the key"),
        ({"type": "words", "judges": ["groundedness"]}, "groundedness needs answers, but the"),
        ({"type": "llm"}, "add the key `llm`"),
        ({"type": "llm", "llm": "big"}, "unknown model 'big'"),
        ({"type": "recorded"}, "needs the key 'path'"),
        ({"type": "recorded", "path": "no.jsonl"}, "no such file"),
    ],
)
def test_what_cannot_be_is_refused(tiny: Tiny, judge: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_experiment(configured(tiny, **judge).folder)
    assert problem in str(error.value)
    assert ".yaml:" in str(error.value)


def test_options_of_the_other_kind_are_refused(tiny: Tiny) -> None:
    with_answers(tiny, llm={"type": "openai", "base_url": "http://127.0.0.1:9", "model": "m"})
    prompt = tiny.folder / "prompt.txt"
    prompt.write_text("version: 1\n[user]\n{question} {passage}\n", encoding="utf-8")
    only = {"type": "llm", "judges": ["correctness"]}
    with pytest.raises(ConfigError, match="depth`: applies to passages of runs"):
        load_experiment(configured(tiny, **only, depth=2).folder)
    with pytest.raises(ConfigError, match="relevance_prompt`: this judge does not judge relevance"):
        load_experiment(configured(tiny, **only, relevance_prompt="prompt.txt").folder)
    with pytest.raises(ConfigError, match=r"correctness_prompt`: .*write \{answer\}"):
        load_experiment(configured(tiny, **only, correctness_prompt="prompt.txt").folder)
    configured(tiny, type="llm", relevance_prompt="prompt.txt")
    assert load_experiment(tiny.folder).judges["one"].files() == {"relevance_prompt": prompt}


def test_a_list_is_a_retriever_a_value(load: Load) -> None:
    text = "retrievers:\n  bm25: {type: bm25, k1: [0.9, 1.2], b: [0, 1.0]}\n  x: {type: bm25}\n"
    retrievers = load(text).retrievers
    assert list(retrievers) == [
        "bm25-k1-0.9-b-0",
        "bm25-k1-0.9-b-1.0",
        "bm25-k1-1.2-b-0",
        "bm25-k1-1.2-b-1.0",
        "x",
    ]
    assert [(r.k1, r.b) for r in retrievers.values()] == [  # type: ignore[attr-defined]
        (0.9, 0),
        (0.9, 1),
        (1.2, 0),
        (1.2, 1),
        (1.2, 0.75),
    ]


def test_texts_chunkings_and_inputs(load: Load) -> None:
    text = (
        "chunking: {whole: {strategy: none}, cut: {strategy: recursive, max_characters: 50, "
        "overlap: 0}}\n"
        "retrievers:\n"
        "  words: {type: bm25, chunking: [whole, cut], analyzer: [english]}\n"
        "  both: {type: rrf, inputs: [words-chunking-whole-analyzer-english, "
        "words-chunking-cut-analyzer-english], k: [1, 60], candidates: [top_k, 9]}\n"
        "  best: {type: maxsim, input: [words-chunking-cut-analyzer-english, "
        "both-k-1-candidates-9]}\n"
    )
    retrievers = load(text).retrievers
    assert [name for name in retrievers if name.startswith("both")] == [
        "both-k-1-candidates-top_k",
        "both-k-1-candidates-9",
        "both-k-60-candidates-top_k",
        "both-k-60-candidates-9",
    ]
    assert retrievers["best-input-both-k-1-candidates-9"].input_names == ("both-k-1-candidates-9",)


def test_what_names_a_grid_is_one(load: Load) -> None:
    text = (
        "chunking:\n  cut: {strategy: recursive, max_characters: [50, 100], overlap: 0}\n"
        "llm: {base_url: 'http://127.0.0.1:9', model: m}\n"
        "query_sets:\n  more: {strategy: multi_query, n: [2, 4]}\n"
        "retrievers:\n"
        "  best: {type: mmr, input: words, lambda: [0.3, 0.7]}\n"
        "  words: {type: bm25, query_set: more}\n"
        "  some: {type: maxsim, input: [words, other]}\n"
        "  other: {type: bm25, chunking: cut-max_characters-50}\n"
    )
    experiment = load(text)
    assert list(experiment.chunkings) == ["cut-max_characters-50", "cut-max_characters-100"]
    assert list(experiment.query_sets) == ["more-n-2", "more-n-4"]
    words = [f"n-{n}-max_characters-{size}" for n in (2, 4) for size in (50, 100)]
    assert set(experiment.retrievers) == {
        "other",
        *(f"words-{each}" for each in words),
        *(f"best-{each}-lambda-{value}" for each in words for value in (0.3, 0.7)),
        "some-input-other",
        *(f"some-input-words-{each}" for each in words),
    }
    best = experiment.retrievers["best-n-4-max_characters-50-lambda-0.7"]
    assert best.input_names == ("words-n-4-max_characters-50",)
    chosen = experiment.retrievers["words-n-4-max_characters-50"]
    assert (chosen.chunking, chosen.query_set) == ("cut-max_characters-50", "more-n-4")  # type: ignore[attr-defined]


GRIDS = {
    "a size of a grid of chunkings": (
        "chunking:\n  cut:\n    strategy: recursive\n    max_characters:\n      - 50\n      - x\n",
        ":4: `chunking.cut-max_characters-x.max_characters`: should be a valid integer",
    ),
    "retrievers that read each other": (
        "retrievers:\n  a: {type: mmr, input: b, lambda: [0, 1]}\n  b: {type: mmr, input: a}\n",
        ":3: `retrievers.b",
    ),
    "value of another type": (
        "retrievers:\n  a:\n    type: bm25\n    k1:\n      - 1.2\n      - high\n",
        ":4: `retrievers.a-k1-high.k1`: should be a valid number; found 'high'",
    ),
    "no value": (
        "retrievers:\n  a:\n    type: bm25\n    k1: []\n",
        ":4: `retrievers.a.k1`: needs a value, or a list of values",
    ),
    "twice": (
        "retrievers:\n  a: {type: bm25, k1: [1, 1]}\n",
        ":2: `retrievers.a`: two members of this grid are 'a-k1-1'; give every value only once",
    ),
    "a name that is taken": (
        "retrievers:\n  a-k1-1: {type: bm25}\n  a: {type: bm25, k1: [1, 2]}\n",
        ":3: `retrievers.a`: grid member 'a-k1-1' has the name of another retriever",
    ),
    "a fusion of a grid": (
        "retrievers:\n  a: {type: bm25, k1: [1, 2]}\n  x: {type: bm25}\n"
        "  f:\n    type: rrf\n    inputs:\n      - x\n      - a\n",
        ":8: `retrievers.f.inputs.1`: unknown retriever 'a'; allowed: a-k1-1, a-k1-2",
    ),
    "a name that breaks the rule": (
        "retrievers:\n  A: {type: bm25, k1: [1, 2]}\n",
        ":2: `retrievers.A-k1-1`: 'A-k1-1' is not a name",
    ),
}


def test_the_largest_grid(load: Load, problem: Problem) -> None:
    values = list(range(1, MAX_MEMBERS // 2 + 1))
    text = "retrievers: {{a: {{type: bm25, k1: {}, b: {}}}}}\n"
    assert len(load(text.format(values, [0, 1])).retrievers) == MAX_MEMBERS
    assert problem(text.format([*values, 99], [0, 1])) == (
        ":1: `retrievers.a`: is a grid of 66 retrievers (33 of k1 x 2 of b); allowed: at most 64"
    )


def test_checks_are_read_and_no_configuration_of_an_evaluation_holds_them(load: Load) -> None:
    text = "checks: {regression: error, drift: {psi: 0.1, far_below: {bm25: 2}}}\n"
    found = load(f"retrievers: {{bm25: {{type: bm25}}}}\n{text}")
    drift = DriftConfig(psi=0.1, far_below={"bm25": 2})
    assert found.config.checks == ChecksConfig(regression="error", drift=drift)
    assert load("top_k: [3]\n").config.checks.drift.severity == "warning"
    plain, strict = load("top_k: [3]\n"), load("top_k: [3]\nchecks: {drift: {psi: 0.1}}\n")
    assert configuration_of(plain) == configuration_of(strict)


BASE = "  x: {type: bm25}\n  y: {type: bm25, k1: 2}\n  z: {type: bm25, b: 0}\n"
SPLIT = "split: {dev: 0.5}\n"


def fused(keys: str, *, split: str = SPLIT) -> str:
    return f"top_k: [3, 10]\n{split}retrievers:\n{BASE}  h: {{type: rrf, inputs: [x, y], {keys}}}\n"


@pytest.mark.parametrize(
    ("keys", "metric", "grid"),
    [
        ("weights: tuned", "ndcg@10", 11),
        ("tune: {}", "ndcg@10", 11),
        ("weights: tuned, tune: {grid: 5}", "ndcg@10", 5),
        ("tune: {metric: RR@3}", "mrr@3", 11),
    ],
)
def test_all_ways_to_ask(load: Load, keys: str, metric: str, grid: int) -> None:
    experiment = load(fused(keys))
    tune = experiment.tune("h")
    assert (str(experiment.tuning_metric("h")), tune and tune.grid) == (metric, grid)
    assert experiment.tune("x") is None
    config = experiment.retrievers["h"]
    assert isinstance(config, FusedRetriever)
    assert config.weights is None
    assert config.weighted((0.2, 0.8)).described()["weights"] == [0.2, 0.8]
    assert "tune" not in config.described()


@pytest.mark.parametrize("kind", ["rrf", "convex", "comb_sum", "comb_mnz", "borda"])
def test_every_fusion_can_be_tuned(load: Load, kind: str) -> None:
    assert load(fused("weights: tuned").replace("type: rrf", f"type: {kind}")).tuned == {"h"}


def test_what_reranks_a_tuned_fusion_is_tuned_too_and_inputs_are_as_deep(load: Load) -> None:
    more = "  m: {type: mmr, input: h}\n  n: {type: mmr, input: x}\n"
    assert load(fused("weights: tuned") + more).tuned == {"h", "m"}
    assert load(fused("weights: [1, 2]") + more).tuned == set()
    assert load(fused("candidates: top_k, tune: {metric: ndcg@3}")).tuning_depth("h") == 3
    assert load(fused("candidates: 70, tune: {metric: ndcg@3}")).tuning_depth("h") == 70
    assert load(fused("candidates: top_k, weights: tuned")).candidate_depths("x", 3) == {3, 10}


def test_a_schedule_is_read(load: Load) -> None:
    text = "schedule: {cron: '0 3 * * *', timezone: Europe/Berlin}\n"
    assert load(text).config.schedule == ScheduleConfig(cron="0 3 * * *", timezone="Europe/Berlin")
    assert load("schedule: {cron: '0  3 * * mon-fri'}\n").config.schedule == ScheduleConfig(
        cron="0 3 * * mon-fri", timezone="UTC"
    )
    assert load("top_k: [3]\n").config.schedule is None
    stopped = load("schedule: {cron: 0 3 * * *, running: false}\n").config.schedule
    assert stopped == ScheduleConfig(cron="0 3 * * *", running=False)


def test_floors(load: Load) -> None:
    short = load("floors: {hit_rate@10: .8, fp@3: 2, grounded: .9}\n").config.floors
    assert [str(floor) for floor in short] == ["hit_rate@10 >= 0.8", "fp@3 <= 2", "grounded >= 0.9"]
    where = "{metric: mrr, at_least: .8, bound: lower, where: {tag: billing, query.year: 2024}}"
    (floor,) = load(f"floors: [{where}]\n").config.floors
    assert str(floor) == "mrr >= 0.8 (lower bound) where tag is billing and query.year is 2024"


FLOORS = {
    "{mrr: high}": ".mrr`: must be a number; found 'high'",
    "{mrr: true}": ".mrr`: must be a number; found True",
    "{mrr: .nan}": ".mrr`: must be a number; found nan",
    "{mrrr: .8}": "`: unknown metric 'mrrr' (did you mean 'mrr'?)",
    "3": "`: must be a list; found 3",
    "[{metric: mrr}]": ".0`: give at_least or at_most, one of them",
    "[{metric: mrr, at_least: .1, at_most: .2}]": ".0`: give at_least or at_most, one of them",
    "[{metric: fp@3, at_least: 2}]": ".0.at_least`: fp@3 is better when lower; write at_most",
    "[{metric: mrr, at_most: .2, bound: lower}]": ".0.bound`: the lower one does not go with at_",
    "[{metric: mrr, at_least: .2, where: {tags: x}}]": ".0.where.tags`: must be tag, query.<fiel",
    "[{metrics: mrr}]": ".0.metrics`: unknown key 'metrics' (did you mean 'metric'?)",
}
WRONG = {
    **GRIDS,
    "no share": ("checks: {drift: {psi: 0}}\n", ":1: `checks.drift.psi`: "),
    "a share above 1": (
        "checks:\n  drift:\n    far_share: 1.5\n",
        ":3: `checks.drift.far_share`: ",
    ),
    "a severity": ("checks: {drift: {severity: fatal}}\n", ":1: `checks.drift.severity`: "),
    "a retriever of a check": (
        "retrievers: {bm25: {type: bm25}}\nchecks: {drift: {far_below: {bm2: 1}}}\n",
        ":2: `checks.drift.far_below.bm2`: unknown retriever 'bm2' (did you mean 'bm25'?)",
    ),
    "tuned without a split": (
        fused("weights: tuned", split=""),
        ":6: `retrievers.h.weights`: tuned weights are chosen on dev and reported on test; add the "
        "key `split`, such as split: {dev: 0.5, seed: 0}",
    ),
    "another word for tuned": (
        fused("weights: tunned"),
        ":7: `retrievers.h.weights`: must be a list of numbers or the word tuned; found 'tunned'",
    ),
    "tuned and not": (
        fused("weights: [1, 2], tune: {grid: 3}"),
        ":7: `retrievers.h.tune`: give weights or tune, not both",
    ),
    "a metric without its cut-off": (
        fused("tune: {metric: ndcg}"),
        ":7: `retrievers.h.tune.metric`: 'ndcg' needs a cut-off of the experiment; allowed: @ 3, "
        "10",
    ),
    "a metric of texts": (
        fused("tune: {metric: answer_hit@3}"),
        ":7: `retrievers.h.tune.metric`: answer_hit is not a measure of a ranking and its labels",
    ),
    "an unknown metric": (
        fused("tune: {metric: ndgc@3}"),
        ":7: `retrievers.h.tune.metric`: unknown metric 'ndgc@3' (did you mean 'ndcg'?)",
    ),
    "a cron of six fields": (
        "schedule:\n  cron: 0 0 3 * * *\n",
        ":2: `schedule.cron`: '0 0 3 * * *' has 6 fields; a cron expression has five: minute, "
        "hour, day of the month, month, day of the week, such as '0 3 * * *'",
    ),
    "a time zone": (
        "schedule: {cron: 0 3 * * *, timezone: Europe/Berln}\n",
        ":1: `schedule.timezone`: unknown time zone 'Europe/Berln' (did you mean "
        "'Europe/Berlin'?); allowed: UTC and the names of the IANA database, such as "
        "Europe/Berlin",
    ),
    "a path to a time zone": (
        "schedule: {cron: 0 3 * * *, timezone: ../UTC}\n",
        ":1: `schedule.timezone`: unknown time zone '../UTC' (did you mean 'UTC'?); allowed: ",
    ),
    "no cron": ("schedule: {timezone: UTC}\n", ":1: `schedule`: needs the key 'cron'"),
    "another key": (
        "schedule: {cron: 0 3 * * *, tz: UTC}\n",
        ":1: `schedule.tz`: unknown key 'tz'; allowed: cron, timezone, running",
    ),
    "a cron that is a number": (
        "schedule: {cron: 5}\n",
        ":1: `schedule.cron`: should be a valid string; found 5",
    ),
    **{f"floors {one}": (f"floors: {one}\n", f":1: `floors{FLOORS[one]}") for one in FLOORS},
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_problems_are_named_where_they_stand(problem: Problem, text: str, expected: str) -> None:
    assert problem(text).startswith(expected)
