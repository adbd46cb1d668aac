"""``llm: {type: transformers}``: models of a few thousand random weights, made by the test."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.errors import ConfigError, ModelUnavailable
from rag_assets.experiment import load_experiment
from rag_assets.llm.client import LENGTH
from rag_assets.llm.models import LocalTransformers
from rag_assets.query_sets.stage import answers_key, query_set_key
from tests.llm.requests import answers_of, asking, completion, failure, untimed
from tests.llm.tiny_language_models import LONGEST, WORDS, save_llama, save_t5
from tests.tiny_experiment import QUERIES, Tiny, planned


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_t5(tmp_path_factory.mktemp("models") / "t5")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "llama")


def most_probable(folder: Path, text: str, n_tokens: int) -> list[str]:
    """Score every sequence of so many tokens by the model alone; texts, the best first."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    is_t5 = AutoConfig.from_pretrained(folder).is_encoder_decoder
    kind: Any = AutoModelForSeq2SeqLM if is_t5 else AutoModelForCausalLM
    model: Any = kind.from_pretrained(folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer(text, return_tensors="pt")["input_ids"]
    sequences = torch.tensor(list(product(range(len(WORDS)), repeat=n_tokens)))
    repeated = asked.repeat(len(sequences), 1)
    with torch.inference_mode():
        if is_t5:
            start = torch.zeros((len(sequences), 1), dtype=torch.long)
            before = torch.cat([start, sequences[:, :-1]], dim=1)
            logits = model(input_ids=repeated, decoder_input_ids=before).logits
        else:
            whole = torch.cat([repeated, sequences], dim=1)
            logits = model(input_ids=whole).logits[:, asked.shape[1] - 1 : -1]
    logs = torch.log_softmax(logits.double(), dim=-1).gather(2, sequences[:, :, None])
    best = logs.sum(dim=(1, 2)).argsort(descending=True)
    return [tokenizer.decode(sequences[n], skip_special_tokens=True).strip() for n in best]


@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_beams_find_the_most_probable_sequences(kind: str, request: pytest.FixtureRequest) -> None:
    """With as many beams as there are beginnings, beam search looks at everything."""
    folder = request.getfixturevalue(kind)
    asked = asking("ticket dog winter", max_tokens=2)
    wide = LocalTransformers(str(folder), beams=len(WORDS), sequences=5)
    found = completion(wide.answer(asked))
    expected = most_probable(folder, "ticket dog winter", 2)
    assert json.loads(found.text) == list(dict.fromkeys(expected[:5]))
    assert len(json.loads(found.text)) > 1
    assert (found.prompt_tokens, found.completion_tokens, found.finish_reason) == (3, 10, LENGTH)
    alone = completion(LocalTransformers(str(folder), beams=len(WORDS)).answer(asked))
    assert alone.text == expected[0]
    greedy = completion(LocalTransformers(str(folder)).answer(asking("dog", max_tokens=1)))
    assert greedy.text == most_probable(folder, "dog", 1)[0]


def test_what_is_drawn_depends_on_the_seed_alone(t5: Path) -> None:
    drawn = {"temperature": 1.5, "max_tokens": 6}
    model = LocalTransformers(str(t5), sequences=3)
    asked = [asking("dog", seed=seed, **drawn) for seed in (1, 2, 1)]
    first, second, third = untimed(answers_of(model, asked))
    assert first == third != second
    assert len(json.loads(completion(first).text)) == 3
    with pytest.raises(ModelUnavailable, match="3 sequences need as many beams, or a temperature"):
        model.answer(asking("dog"))


def test_too_long_and_no_model(llama: Path, tmp_path: Path) -> None:
    reason = failure(LocalTransformers(str(llama)).answer(asking("dog", max_tokens=LONGEST))).reason
    assert reason == "1 tokens and 32 of the answer do not fit in the model's 32"
    with pytest.raises(ModelUnavailable, match=r"language model folder './gone' does not exist"):
        LocalTransformers("./gone")
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (broken / name).write_text("{}")
    with pytest.raises(ModelUnavailable, match=r"language model '.*broken' in .* cannot be loaded"):
        LocalTransformers(str(broken)).answer(asking("dog"))


def test_identity_is_of_content(t5: Path, llama: Path, tmp_path: Path) -> None:
    copied = tmp_path / "t5"
    copied.mkdir()
    for file in t5.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    identity = LocalTransformers(str(t5)).identity
    assert LocalTransformers(str(copied)).identity == identity
    assert LocalTransformers(str(t5), beams=2).identity != identity
    (copied / "generation_config.json").write_text('{"repetition_penalty": 2.0}')
    assert LocalTransformers(str(copied)).identity != identity
    assert LocalTransformers(str(llama)).identity["model_sha256"] != identity["model_sha256"]


def experiment(tmp_path: Path, model: Path) -> Tiny:
    tiny = Tiny(tmp_path / "tiny")
    bm25 = {"type": "bm25", "chunking": "parts"}
    tiny.config |= {
        "llm": {"type": "transformers", "model": str(model), "beams": 4, "sequences": 4},
        "query_sets": {
            "t5": {"strategy": "multi_query", "template": "paraphrase.txt", "max_tokens": 4}
        },
        "retrievers": {"bm25": bm25, "t5_bm25": {**bm25, "query_set": "t5"}},
    }
    tiny.write()
    (tiny.folder / "paraphrase.txt").write_text("version: 1\n[user]\nparaphrase : {query}\n")
    return tiny


def test_sequences_are_variants(tmp_path: Path, t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And requests are counted, planned, and made once."""
    tiny = experiment(tmp_path, t5)
    assert planned(tiny).work("llm_calls") == len(QUERIES)
    tiny.run()
    pipeline = tiny.pipeline()
    answers = pipeline.artifact(answers_key("t5")).table().to_pylist()
    assert {row["model"] for row in answers} == {"t5"}
    rows = pipeline.artifact(query_set_key("t5")).table().to_pylist()
    for answer in answers:
        own = [row["text"] for row in rows if row["query_id"] == answer["query_id"]]
        written = [text for text in json.loads(answer["text"]) if text]
        assert own[1:] == written
    assert len(rows) > 2 * len(QUERIES)
    tiny.config["query_sets"]["again"] = tiny.config["query_sets"]["t5"] | {"n": 2}
    tiny.configure("bm25", query_set="again")
    assert planned(tiny).work("llm_calls") == 0
    monkeypatch.setattr(LocalTransformers, "_load", lambda self: pytest.fail("it is loaded"))
    tiny.run()


@pytest.mark.parametrize(
    ("llm", "problem"),
    [
        ("{type: transformers}", "needs the key 'model'"),
        ("{type: transformers, model: m, beams: 2, sequences: 3}", "3 sequences need as many"),
        ("{type: transformers, model: m, timeout: 3}", "timeout: only for type: openai"),
        ("{model: m, beams: 3}", "beams: only for type: transformers"),
        ("{model: m, sequences: 3}", "sequences: only for type: transformers"),
        (
            "{type: transformers, model: m, beams: 3, sequences: 3}",
            "only a query set with `strategy: multi_query` can read more than one",
        ),
    ],
)
def test_one_line_for_what_cannot_be(tmp_path: Path, llm: str, problem: str) -> None:
    tiny = experiment(tmp_path, tmp_path)
    tiny.config["llm"] = yaml.safe_load(llm)
    tiny.config["query_sets"]["t5"] = {"strategy": "hyde"}
    tiny.write_config()
    with pytest.raises(ConfigError, match=problem):
        load_experiment(tiny.folder)
