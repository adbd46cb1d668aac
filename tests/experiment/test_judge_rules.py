"""Judges in an experiment.yaml: what is filled in, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.judges.base import CORRECTNESS, RELEVANCE
from tests.answers.answering import with_answers
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
        ({"type": "words", "judges": ["style"]}, "should be 'relevance' or 'correctness'"),
        ({"type": "words", "judges": ["correctness"]}, "the experiment has none; add the key"),
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
    with pytest.raises(ConfigError, match="depth`: is of the passages of runs"):
        load_experiment(configured(tiny, **only, depth=2).folder)
    with pytest.raises(ConfigError, match="relevance_prompt`: this judge does not judge relevance"):
        load_experiment(configured(tiny, **only, relevance_prompt="prompt.txt").folder)
    with pytest.raises(ConfigError, match=r"correctness_prompt`: .*write \{answer\}"):
        load_experiment(configured(tiny, **only, correctness_prompt="prompt.txt").folder)
    configured(tiny, type="llm", relevance_prompt="prompt.txt")
    assert load_experiment(tiny.folder).judges["one"].files() == {"relevance_prompt": prompt}
