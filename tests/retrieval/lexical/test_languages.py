"""The analyzer that ``auto`` chooses, and stemmers."""

# ruff: noqa: RUF001 - many letters of other scripts look like Latin ones

from __future__ import annotations

import random
import time

import pytest
import snowballstemmer
import Stemmer

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    CHOICES,
    FUNCTION_WORDS,
    analyze_all,
    analyzer_code,
    detect_analyzer,
    resolve_analyzer,
)
from rag_assets.retrieval.lexical.analyzers.words import LANGUAGES, words

SURE = {
    "english": "The pump is cooled by water that flows to the heat exchanger.",
    "german": "Die Pumpe wird von dem Wasser gekühlt, das in den Tank fließt und nicht heiß ist.",
    "dutch": "De pomp is gekoeld met water of olie, en het was in de tank die naar zee ging.",
    "danish": "Skibet er for to linjer, og det sejler efter otte til byen, som ikke har en havn.",
    "norwegian": "Skipet går etter åtte til byen, og det har ikke en havn nå, men også av tre.",
    "swedish": "Fartyget är för två linjer och går till staden, som inte har någon hamn.",
    "french": "La pompe est refroidie par l'eau qui va dans un échangeur et sur les tubes.",
    "spanish": "La bomba se enfría con el agua que va a los tubos del barco y no por el aire.",
    "italian": "La pompa è raffreddata dall'acqua che va nel tubo della nave e non per gli altri.",
    "portuguese": "A bomba é resfriada com a água que vai para os tubos do navio e não pelo ar.",
    "catalan": "La bomba es refreda amb l'aigua que va als tubs del vaixell i no per les altres.",
    "romanian": "Pompa este răcită cu apă care se duce în tub și nu prin aer, pentru că e cald.",
    "polish": "Pompa jest chłodzona przez wodę, która nie idzie do rury, ale się grzeje w baku.",
    "czech": "Čerpadlo je chlazeno vodou, která se nedostane do trubky, ale jen jako pro topení.",
    "finnish": "Pumppu on jäähdytetty, mutta se ei ole kuuma, kun vesi on kylmä ja ilma myös.",
    "hungarian": "A szivattyú nem meleg, mert a víz és az olaj hideg, hogy egy cső is elég.",
    "turkish": "Bu pompa çok sıcak değil, ama su ve yağ için bir boru daha var.",
    "indonesian": "Pompa ini tidak panas, karena air yang dingin itu ada di dalam pipa.",
    "russian": "Насос не горячий, и вода из трубы для него холодная, а масло от него теплое.",
    "serbian": "Пумпа није врућа, а вода је хладна и за њу се користи цев која је од метала.",
    "arabic": "المضخة التي في السفينة لا تعمل من غير ماء إلى أن يصل إليها من الأنبوب",
    "persian": "پمپ کشتی با آب سرد می شود و این آب را از لوله به آن می رساند که گرم است",
    "hindi": "पंप का पानी नली में है और यह गरम नहीं है",
    "greek": "Η αντλία δεν είναι ζεστή",
    "tamil": "பம்ப் சூடாக இல்லை",
    "ngrams": "ปั๊มน้ำไม่ร้อน",
    "cjk": "日本半导体产业的现状 GPT-4",
}

CORPORA = {name: (name, [text]) for name, text in SURE.items()} | {
    "Lao": ("ngrams", ["ປັ໊ມນ້ຳບໍ່ຮ້ອນ"]),
    "Khmer": ("ngrams", ["ស្នប់ទឹកមិនក្តៅ"]),
    "Burmese": ("ngrams", ["ရေစုပ်စက် မပူပါ"]),
    "Thai beside English": ("ngrams", [SURE["ngrams"], "The valve KFP-30417 of the pump"]),
    "Japanese": ("cjk", ["カメラはどこですか"]),
    "Korean": ("cjk", ["서울은 어디입니까"]),
    "Russian with Latin names": (
        "russian",
        [SURE["russian"], "Volkswagen Golf, Bosch, Siemens, Philips"],
    ),
    "English with one Chinese name": (
        "english",
        ["The city of Beijing (北京) is the capital of the country, and it is old."],
    ),
    # two languages, or one that has no stemmer: nothing is sure
    "English and German": ("standard", [SURE["english"], SURE["german"]]),
    "half Russian, half English": ("standard", ["Москва the and of"] * 2),
    "Ukrainian": (
        "standard",
        ["Насос не гарячий, і вода з труби для нього, що є в баку, холодна."],
    ),
    "Bulgarian": ("standard", ["Помпата не е гореща, а водата от тръбата за нея се влива в бака."]),
    "Slovak": ("standard", ["Čerpadlo je chladené vodou, ktorá sa nedostane do rúrky, ale aj pri"]),
    "Afrikaans": ("standard", ["Die pomp is nie warm nie en hy word deur die water van die see."]),
    "Icelandic": ("standard", ["Skipið er ekki heitt og það fer til hafnar sem var við bæinn."]),
    "Urdu": ("standard", ["پمپ کے پانی میں یہ نہیں ہے اور اس سے کوئی گرم نہیں ہوا"]),
    "Hebrew": ("standard", ["המשאבה של האוניה לא חמה כי היא גם על המים"]),
    "Vietnamese": ("standard", ["Máy bơm không nóng vì nước trong ống rất lạnh."]),
    "part numbers": ("standard", ["KFP-30417 seal kit", "KFP-30418 gasket"]),
    "digits and emoji": ("standard", ["1234 😀", "..."]),
    "nothing": ("standard", []),
}


@pytest.mark.parametrize(("expected", "texts"), CORPORA.values(), ids=CORPORA.keys())
def test_detection(expected: str, texts: list[str]) -> None:
    assert detect_analyzer(texts) == expected
    assert expected in ANALYZERS


@pytest.mark.parametrize("language", FUNCTION_WORDS)
def test_listed_words_are_such_that_a_corpus_can_hold_them(language: str) -> None:
    listed = FUNCTION_WORDS[language]
    assert sorted(words(" ".join(listed))) == sorted(listed)
    assert 15 <= len(listed) <= 45


def test_what_may_be_chosen_needs_no_extra() -> None:
    assert {ANALYZERS[name].extra for name in CHOICES} == {None}


def test_detection_looks_at_a_sample_that_does_not_depend_on_the_order() -> None:
    english = [f"The part {i} is that of the pump and it is for the crew." for i in range(2000)]
    chinese = [f"日本半导体{i}" for i in range(2000)]
    texts = english + chinese
    found = {detect_analyzer(texts), detect_analyzer(texts[::-1])}
    random.Random(1).shuffle(texts)
    assert found | {detect_analyzer(texts)} == {"cjk"}


def test_the_cost_grows_with_the_starts_of_texts_only() -> None:
    texts = [f"{SURE['german']} {i} " + "x" * 1000 for i in range(50_000)]
    start = time.process_time()
    assert detect_analyzer(texts) == "german"
    assert time.process_time() - start < 2  # 0.2 s; a million texts take some seconds


SENTENCES = (
    "Die Pumpen wurden gek\u00fchlt",
    "Les pompes de l'eau",
    "Las bombas corriendo",
    "\u043d\u0430\u0441\u043e\u0441\u044b",
    "ma\u0142ych \u03bb\u03cc\u03b3\u03bf\u03b9",
)


def test_every_language_of_the_stemmer_has_an_analyzer() -> None:
    older, installed = {"porter", "dutch_porter"}, {*Stemmer.algorithms()}
    newer = {"czech", "esperanto", "estonian", "persian", "polish", "sesotho"}
    assert {*LANGUAGES, "english"} - newer <= installed <= {*LANGUAGES, "english"} | older
    assert set(LANGUAGES) < set(ANALYZERS)


def test_a_language_that_an_older_stemmer_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stemmer, "algorithms", lambda: ["english"])
    with pytest.raises(UsageError, match="analyzer 'polish' needs PyStemmer 3, not "):
        analyze_all("polish", ["pompy"])[0]


@pytest.mark.parametrize("language", sorted({*LANGUAGES} & {*snowballstemmer.algorithms()}))
def test_equal_to_the_stemmer_in_python(language: str) -> None:
    stemmer = snowballstemmer.stemmer(language)
    for text in SENTENCES:
        words = analyze_all("standard", [text])[0]
        assert analyze_all(language, [text])[0] == [stemmer.stemWord(w) or w for w in words]


def test_versions_and_code() -> None:
    assert set(analyzer_code("english")) - set(analyzer_code("auto")) == {
        "rag_assets.retrieval.lexical.analyzers:_CHOOSERS[]"
    }
    with pytest.raises(
        UsageError, match="analyzer 'x'; allowed: auto, english, standard, cjk, ngrams"
    ):
        resolve_analyzer("x", [])
