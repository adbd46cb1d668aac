from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.retrieval.external import locate as locating
from rag_assets.retrieval.external.hits import Hit
from rag_assets.retrieval.external.locate import (
    AMBIGUOUS,
    EXACT,
    MISSING,
    NORMALISED,
    Place,
    locate,
    normalised,
    offsets_of,
)

DOCUMENTS = {
    "guides/fares.md": "A dog needs a ticket.\n\nA cat needs none. A dog  is quiet.",
    "guides/harbours.md": "The harbour opens at six. A cat needs none.",
    "caf\u00e9.md": "Cafe\u0301 cr\u00e8me costs \ufb01ve crowns.\u00a0It is hot, hot, hot.",
}

HOT = DOCUMENTS["caf\u00e9.md"].rindex("hot")


def place(text: str, **details: object) -> Place:
    (found,) = locate([Hit(text=text, **details)], DOCUMENTS)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("text", "details", "expected"),
    [
        ("needs a ticket", {}, Place(EXACT, "guides/fares.md", 6, 20)),
        # A line feed where the document has two, and one blank where it has two.
        ("ticket.\nA cat", {}, Place(NORMALISED, "guides/fares.md", 14, 28)),
        (" A dog is quiet. ", {}, Place(NORMALISED, "guides/fares.md", 41, 57)),
        # Composed where the document is decomposed, and a ligature taken apart; a hard blank.
        ("Caf\u00e9 cr\u00e8me costs five", {}, Place(NORMALISED, "caf\u00e9.md", 0, 21)),
        ("crowns. It", {}, Place(NORMALISED, "caf\u00e9.md", 22, 32)),
        ("A cat needs none.", {}, Place(AMBIGUOUS)),
        (
            "A cat needs none.",
            {"source": "harbours.md"},
            Place(EXACT, "guides/harbours.md", 26, 43),
        ),
        (
            "A cat needs none.",
            {"source": "/srv/x/guides/fares.md"},
            Place(EXACT, "guides/fares.md", 23, 40),
        ),
        (
            "A cat needs none.",
            {"source": "file:///srv/guides/fares"},
            Place(EXACT, "guides/fares.md", 23, 40),
        ),
        (
            "A cat needs none.",
            {"document_id": "guides/fares.md"},
            Place(EXACT, "guides/fares.md", 23, 40),
        ),
        ("hot", {}, Place(AMBIGUOUS, "caf\u00e9.md")),
        ("hot", {"start": HOT}, Place(EXACT, "caf\u00e9.md", HOT, HOT + 3)),
        # A start that is of another text than ours says nothing.
        ("hot", {"start": 3}, Place(AMBIGUOUS, "caf\u00e9.md")),
        ("no such words", {}, Place(MISSING)),
        ("no such words", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
        # It stands elsewhere, but the hit says where it is from.
        ("The harbour opens", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
        (
            "The harbour opens",
            {"source": "other/fares.md"},
            Place(EXACT, "guides/harbours.md", 0, 17),
        ),
        ("", {}, Place(MISSING)),
        (" \n", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
    ],
)
def test_a_text_is_located(text: str, details: dict[str, object], expected: Place) -> None:
    assert place(text, **details) == expected


def test_a_file_has_its_title_before_the_text() -> None:
    documents = {"a.md": "It sails.\n", "b.md": "It sails not.\n"}
    titles = {"a.md": "The ferry", "b.md": "The boat"}

    def found(text: str) -> Place:
        return locate([Hit(text=text)], documents, titles)[0]

    assert found("# The ferry\n\nIt sails.") == Place(NORMALISED, "a.md", 0, 9)
    front_matter = "---\nauthor: x\n---\n# The boat\n\nIt sails not."
    assert found(front_matter) == Place(NORMALISED, "b.md", 0, 13)
    assert found("# The ferry\n") == Place(MISSING)


ALPHABET = st.text("ab \n\u00e9e\u0301\ufb01f\u00a0", max_size=60)


@settings(deadline=None, max_examples=150)
@given(st.lists(ALPHABET, min_size=1, max_size=5), st.data())
def test_it_finds_what_a_plain_search_finds(texts: list[str], data: st.DataObject) -> None:
    """The hashes of all texts at once against str.find, document by document."""
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    whole = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(whole)))
    text = whole[start : data.draw(st.integers(start, len(whole)))]
    expected = [
        (name, at, at + len(text))
        for name, document in documents.items()
        for at in range(len(document))
        if text and document.startswith(text, at)
    ]
    (found,) = locate([Hit(text=text)], documents)
    if not text.strip():
        assert found == Place(MISSING)
    elif len(expected) == 1:
        assert found == Place(EXACT, *expected[0])
    else:
        assert found.how == AMBIGUOUS


@settings(deadline=None)
@given(st.text(max_size=80))
def test_offsets_are_of_the_characters_that_a_normalised_one_was_made_of(text: str) -> None:
    alike, offsets = normalised(text), offsets_of(text)
    assert len(alike) == len(offsets)
    assert [one for one, _ in offsets] == sorted(one for one, _ in offsets)
    for made, (start, end) in zip(alike, offsets, strict=True):
        own = text[start:end]
        assert (
            own.isspace()
            if made == " " and own.isspace()
            else made in unicodedata.normalize("NFKC", own)
        )


def test_documents_are_searched_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "BLOCK_CHARACTERS", 5)
    documents = {f"d{n}": f"number {n} is here" for n in range(20)}
    hits = [Hit(text=f"{n} is here") for n in range(10, 20)]
    assert locate(hits, documents) == [Place(EXACT, f"d{n}", 7, 17) for n in range(10, 20)]
