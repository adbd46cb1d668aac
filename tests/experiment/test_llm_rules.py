"""Language models by name: which one is meant, and what it must say of its host."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import Client, clients, host_notes
from tests.tiny_experiment import Tiny

LOCAL = "{model: a, base_url: 'http://127.0.0.1:1/v1', api_key_env: null}"
LARGE = "{model: b, base_url: 'https://e.org/v1', max_calls: 9}"


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "tiny").write()


@pytest.fixture
def folder(tiny: Tiny) -> Path:
    (tiny.folder / "experiment.yaml").unlink()
    return tiny.folder


def load(folder: Path, text: str) -> object:
    file = folder / "experiment.yaml"
    file.write_text(text)
    return load_experiment(folder)


WRONG = {
    "unknown": (
        f"llms: {{small: {LOCAL}, large: {LARGE}}}\n"
        "query_sets:\n  q: {strategy: hyde, llm: smal}\n",
        ":3: `query_sets.q.llm`: unknown model 'smal' (did you mean 'small'?); allowed: small, "
        "large",
    ),
    "none of several": (
        f"llms: {{small: {LOCAL}, large: {LARGE}}}\nquery_sets:\n  q: {{strategy: hyde}}\n",
        ":3: `query_sets.q`: needs a language model; name one of `llms`: `llm: small, large`",
    ),
    "none at all": (
        "query_sets: {q: {strategy: hyde}}\n",
        ":1: `query_sets.q`: needs a language model; add the key `llm`",
    ),
    "no host": (
        "llms:\n  small: {model: a, max_calls: 9}\n",
        ":2: `llms.small`: names no host; add `base_url: https://api.openai.com/v1`, or another "
        "one",
    ),
    "no limit": (
        "llms:\n  small: {model: a, base_url: 'https://me:secret@e.org:8/v1'}\n",
        ":2: `llms.small`: is at e.org:8: limit how much may be sent, by `max_calls`, or "
        "`max_cost` with `prompt_price` and `completion_price`",
    ),
    "no address": (
        "llms:\n  small: {model: a, base_url: 'e.org', max_calls: 1}\n",
        ":2: `llms.small.base_url`: must be an address that begins with http:// or https://",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_models(folder: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    assert str(raised.value) == f"{folder / 'experiment.yaml'}{expected}"


def test_a_name_is_no_part_of_what_is_computed(tiny: Tiny) -> None:
    here = {"model": "a", "base_url": "http://127.0.0.1:1/v1", "api_key_env": None}
    tiny.config["query_sets"] = {"q": {"strategy": "hyde"}}
    tiny.configure("bm25", query_set="q")

    def recipe(**config: object) -> str:
        tiny.config.pop("llm", None)
        tiny.config |= config
        tiny.write_config()
        pipeline = tiny.pipeline()
        (stage,) = (one for one in pipeline.stages() if one.name == "query_set_answers")
        (key,) = stage.keys(pipeline.experiment)
        return str(stage.config(pipeline, key))

    single = recipe(llm=here)
    tiny.config["query_sets"] = {"q": {"strategy": "hyde", "llm": "small"}}
    assert recipe(llms={"small": here}) == single
    assert recipe(llms={"small": {**here, "max_calls": 3, "timeout": 5}}) == single
    assert recipe(llms={"small": {**here, "model": "b"}}) != single


def test_hosts_that_today_s_experiments_do_not_name(tiny: Tiny) -> None:
    server = {"type": "rerank_api", "input": "bm25", "model": "m"}
    at = {"base_url": "https://me.org/v1"}
    tiny.config |= {
        "llm": {"model": "m"},
        "query_sets": {"q": {"strategy": "hyde"}},
        "retrievers": {
            "bm25": {"type": "bm25", "chunking": "whole", "query_set": "q"},
            "here": {**server, "base_url": "http://[::1]:8"},
            "bounded": {**server, **at, "max_calls": 3},
            "unbounded": {**server, **at},
            "window": {"type": "listwise", "input": "bm25", "model": "m", "max_calls": 1},
            "vectors": {"type": "openai_embedding", "chunking": "whole", "model": "m"},
            "local": {
                "type": "listwise",
                "input": "bm25",
                "model": "m",
                **at,
                "window": 2,
                "step": 1,
                "base_url": "http://localhost:1/v1",
            },
        },
        "baseline": "bm25",
    }
    tiny.write_config()
    experiment = load_experiment(tiny.folder)
    openai = "https://api.openai.com/v1"
    assert clients(experiment) == [
        Client("llm", openai, False, False),
        Client("retrievers.bounded", "https://me.org/v1", True, True),
        Client("retrievers.unbounded", "https://me.org/v1", True, False),
        Client("retrievers.window", openai, False, True),
        Client("retrievers.vectors", openai, True, False),
    ]
    unnamed = (
        "texts are sent to api.openai.com, which the experiment does not name; the next version "
        f"refuses it: add `base_url: {openai}`"
    )
    limit = (
        "is asked without a limit; the next version refuses it: add `max_calls`, or `max_cost` "
        "where there is one"
    )
    assert host_notes(clients(experiment)) == [
        f"llm: {unnamed}",
        f"llm: api.openai.com {limit}",
        f"retrievers.unbounded: me.org {limit}",
        f"retrievers.window: {unnamed}",
        f"retrievers.vectors: api.openai.com {limit}",
    ]


@pytest.mark.parametrize(
    ("llm", "notes"),
    [
        ({"type": "transformers", "model": "m"}, 0),
        ({"model": "m", "base_url": "http://127.0.0.1:1/v1"}, 0),
        ({"model": "m", "type": "openai", "max_calls": 5}, 0),
        ({"model": "m", "base_url": "https://e.org/v1"}, 1),
    ],
)
def test_what_needs_no_note(tiny: Tiny, llm: dict[str, object], notes: int) -> None:
    tiny.config |= {"llm": llm, "query_sets": {"q": {"strategy": "hyde"}}}
    tiny.write_config()
    assert len(host_notes(clients(load_experiment(tiny.folder)))) == notes
