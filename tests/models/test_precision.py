from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.models import loading as precision
from rag_assets.models.encoder import Encoder
from rag_assets.models.loading import (
    has_bfloat16,
    resolve_precision,
)
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.workspace import Workspace
from tests.embedding_texts import handbook_sentences

X86 = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 avx512f {}\nbugs\t\t: bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd {}\nCPU part\t: 0xd40\n"


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the processor's."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(precision, "CPUINFO", file)
    return file


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (X86.format("avx512_bf16"), True),
        (X86.format("amx_bf16 amx_tile"), True),
        (X86.format("avx512_bf16x"), False),
        (X86.format(""), False),
        (ARM.format("i8mm bf16"), True),
        (ARM.format("i8mm"), False),
        ("", False),
    ],
)
def test_what_the_processor_says(cpu: Path, content: str, found: bool) -> None:
    cpu.write_text(content)
    assert has_bfloat16(cpu) == found
    assert resolve_precision("auto") == ("bfloat16" if found else "float32")
    assert (resolve_precision("float32"), resolve_precision("bfloat16")) == ("float32", "bfloat16")


def config(**options: object) -> BiEncoder:
    return BiEncoder.model_validate({"type": "embedding", **options})


def test_what_is_used_is_in_the_fingerprint_and_not_what_was_wished(cpu: Path) -> None:
    plain = config().describe("document")
    assert plain["precision"] == "float32"
    assert config(precision="auto").describe("document") == plain, "this one has no instructions"
    cpu.write_text(X86.format("avx512_bf16"))
    has_bfloat16.cache_clear()
    auto = config(precision="auto").describe("document")
    assert auto == {**plain, "precision": "bfloat16"}
    assert config(precision="bfloat16").describe("document") == auto
    for options in ({}, {"precision": "auto"}):
        own = config(**options)
        assert "precision" not in {**own.index_options(), **own.search_config()}


def test_vectors_in_bfloat16_are_nearly_those_in_fp32(tmp_path: Path) -> None:
    texts = handbook_sentences(80)
    reference = Encoder(cache=tmp_path, device="cpu").encode(texts, kind="document")
    fast = Encoder(cache=tmp_path, device="cpu", precision="bfloat16")
    calls: list[int] = []
    found = fast.encode(texts, kind="document", progress=lambda _, total: calls.append(total))
    assert set(calls) == {len(set(texts))}, "vectors of the other precision are not taken"
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.astype(np.float64), axis=1), 1, atol=1e-6)
    cosines = np.sum(reference.astype(np.float64) * found, axis=1)
    assert cosines.mean() >= 0.9999
    assert cosines.min() >= 0.999
    assert not np.array_equal(reference, found)
    again = Encoder(cache=tmp_path, precision="bfloat16").encode(texts[::-1], kind="document")
    assert np.array_equal(again[::-1], found)


def test_the_index_says_its_precision_beside_its_other_notes(tmp_path: Path) -> None:
    import pyarrow as pa

    chunks = pa.table({"chunk_id": ["a", "b"]})
    texts = ["A dog needs a ticket.", "word " * 300]
    (tmp_path / "index").mkdir()
    facts = config(precision="bfloat16").build(chunks, texts, tmp_path / "index", Workspace())
    assert (facts["precision"], facts["n_truncated"]) == ("bfloat16", 1)
    assert [note.split()[0] for note in facts["notes"]] == ["1", "vectors"]
