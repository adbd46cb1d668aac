"""Prompts of well-known embedding models that do not declare them in their own files.

An asymmetric model was trained with another text before a query than before a document; without
them it still gives vectors, and finds less. What counts, the first that is there: what the
experiment says, what the model's own configuration declares, this table, nothing.

The table has what the model cards at the hub say: E5 (Wang et al. 2022 and 2024), BGE (Xiao et al.
2023; of v1.5 the card says that the instruction may be left out at a small loss), GTE (Li et al.
2023), Nomic Embed (Nussbaum et al. 2024), and the MS MARCO models of sentence-transformers. A model
is known by the last part of its name, or by the name that its ``config.json`` keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rag_assets.models.model_files import declared_prompt, json_object
from rag_assets.models.model_names import resolve_model

Kind = Literal["query", "document"]
KINDS: tuple[Kind, ...] = ("query", "document")


class KnownModel(NamedTuple):
    """A family of models, and what they want before a query and a document; empty: nothing."""

    family: str
    query: str = ""
    document: str = ""


_E5 = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)
_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = (
    "\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a\u4ee5\u7528\u4e8e"
    "\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a"
)

_TABLE: tuple[tuple[str, KnownModel], ...] = (
    (r"(multilingual-)?e5-(large|mistral-7b)-instruct", KnownModel("E5 instruct", _E5)),
    (
        r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?",
        KnownModel("E5", "query: ", "passage: "),
    ),
    (r"bge-(small|base|large)-en(-v1\.5)?", KnownModel("BGE", _BGE)),
    (r"bge-(small|base|large)-zh(-v1\.5)?", KnownModel("BGE", _BGE_ZH)),
    (r"bge-m3", KnownModel("BGE-M3")),
    (r"gte-(small|base|large|multilingual-base)(-zh|-en-v1\.5)?", KnownModel("GTE")),
    (
        r"nomic-embed-text-v(1|1\.5|2-moe)(-unsupervised)?",
        KnownModel("Nomic", "search_query: ", "search_document: "),
    ),
    (r"msmarco-.+|multi-qa-.+", KnownModel("MS MARCO")),
)


class Prompts(NamedTuple):
    """What is put before texts, and where each is from.

    Attributes:
        texts: kind -> prompt.
        sources: kind -> ``experiment``, ``model`` (its own configuration), ``table`` or ``none``.
        known: the model's line of the table, if it has one.
    """

    texts: Mapping[Kind, str]
    sources: Mapping[Kind, str]
    known: KnownModel | None

    def for_encoder(self, kind: Kind) -> str | None:
        """Return the prompt to give to an encoder; None leaves it to the model's own files."""
        return self.texts[kind] if self.sources[kind] in ("experiment", "table") else None

    @property
    def note(self) -> str | None:
        """What is to be said; None where the experiment itself says it, or there is no prompt."""
        parts = [
            f"'{self.texts[kind]}' before every {kind} ({_NAMES[self.sources[kind]]})"
            for kind in KINDS
            if self.texts[kind] and self.sources[kind] in _NAMES
        ]
        return f"prompts: {', '.join(parts)}".replace("\n", "\\n") if parts else None

    def warning(self, model: str, kinds: Sequence[Kind] = KINDS) -> str | None:
        """Return that the model runs without a prompt that it was trained with; None: it does not.

        Args:
            model: its name in the experiment.
            kinds: of texts that it reads.
        """
        entry, texts = self.known, self.texts
        missing = [kind for kind in kinds if entry and getattr(entry, kind) and not texts[kind]]
        if entry is None or not missing:
            return None
        gaps = " and ".join(f"{getattr(entry, kind)!r} before every {kind}" for kind in missing)
        keys = " and ".join(f"{kind}_prompt" for kind in missing)
        return f"model '{model}' ({entry.family}) was trained with {gaps}; give it as {keys}"


_NAMES = {"model": "the model's own configuration", "table": "the table of known models"}


def known_model(name: str) -> KnownModel | None:
    """Return the line of the table for a model of this name; None: it is not there."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    return next((entry for pattern, entry in _TABLE if re.fullmatch(pattern, last)), None)


def prompts_of(model: str, query: str | None, document: str | None) -> Prompts:
    """Return the prompts of a local model; where its files declare one, the table is not read.

    Args:
        model: its name or folder.
        query: what the experiment says; None: nothing, and empty: none is used.
        document: the same for documents.

    Raises:
        ModelUnavailable: the model's files cannot be had.
    """
    folder = resolve_model(model).path
    own_name = json_object(folder / "config.json").get("_name_or_path")
    entry = known_model(model) or known_model(str(own_name or ""))
    declared = {kind: declared_prompt(folder, kind) for kind in KINDS}
    given = {"query": query, "document": document}
    texts, sources = dict[Kind, str](), dict[Kind, str]()
    for kind in KINDS:
        text = given[kind]
        table = getattr(entry, kind) if entry else ""
        if text is not None:
            texts[kind], sources[kind] = text, "experiment"
        elif any(declared.values()):
            texts[kind], sources[kind] = declared[kind], "model"
        else:
            texts[kind], sources[kind] = table, "table" if table else "none"
    return Prompts(texts, sources, entry)


def served_prompts(model: str, query: str, document: str) -> Prompts:
    """Return the prompts of a model on a server: those of the experiment, and none besides."""
    texts: dict[Kind, str] = {"query": query, "document": document}
    return Prompts(texts, dict.fromkeys(KINDS, "experiment"), known_model(model))
