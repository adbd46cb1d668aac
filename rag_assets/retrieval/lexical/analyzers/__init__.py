"""Analyzers: named ways to cut texts into tokens. The default ``auto`` chooses one.

It goes by the script and the function words of the corpus. The choice depends on the set of texts
alone: not on their order, on queries, or on what is installed. The sample is what hashes lowest, so
an edited text changes one text of it at most.

The commonest words tell languages apart. Languages without a stemmer are here too, where they share
words with one that has: what looks like Danish may be Icelandic. All words are as
:func:`.words.words` gives them.
"""

from __future__ import annotations

import heapq
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analyzers.words import (
    CJK_ANALYZER,
    CJK_CHARACTER,
    ENGLISH,
    ICU,
    JIEBA,
    LANGUAGES,
    NGRAMS,
    SNOWBALL,
    STANDARD,
    UNSPACED_CHARACTER,
    WHITESPACE,
    Analyzer,
    Tokens,
    words,
)

# ruff: noqa: RUF001 - many letters of other scripts look like Latin ones

_WORDS = """
english: the of and to a in is that was for with as are this it from which has their they by be
  were on at or have not an his
german: der die und in den von zu das mit sich des auf ist im dem nicht ein eine als auch es an
  er so dass nach bei aus wird sind einer wurde oder
french: de la le et les des en un du une que est dans qui par pour au il sur ne pas plus se ce
  sont avec son aux d l cette ou
spanish: de la que el en y a los se del las un por con no una su para es al lo como más fue o
  sus este son entre
italian: di e il la che in a per un del è i le con della si una non da gli al dei nel sono anche
  l alla come dell più
portuguese: de a o que e do da em um para com não uma os no se na por mais as dos como foi ao
  das é pelo são sua seu
dutch: de van een en het in is dat op te zijn met voor die niet aan er om ook als dan door bij
  naar uit werd worden wordt deze ze
danish: og i at er det en til af den på for med der de ikke som et har var jeg han fra ved blev
  efter mig sig hvad meget også vi kan
norwegian: og i er det en til av på å for med at som de den ikke et har var jeg fra ble han
  etter meg seg hva også vi kan blir nå
swedish: och i att det som en på är av för med till den har de inte om ett var jag han från
  efter sig också eller vid kan vi
finnish: ja on ei että oli se hän myös mutta ovat kun kuin joka sen tai niin voi hänen jos olla
  olivat nyt sekä jotka tämä mukaan mitä minun
hungarian: a az és hogy nem is egy volt meg de csak ezt ez vagy van el mint már ki azt itt
  minden számára amely ha pedig szerint lehet után
turkish: ve bir bu da de için ile olarak çok daha olan gibi kadar ama ne o en ya var sonra değil
  her ben mi tarafından oldukça olduğunu ise
romanian: de și şi în a la cu nu o din pe care să un este mai pentru ce că se au fost prin sau
  lui dar sunt al unei după
polish: w i na z do nie się że jest to o od za po jak co był jako dla przez tym oraz ale tego
  który była przy mnie czy są
czech: a v se na je že to s z do i jako o za by ale po ve pro k jsem byl jsou jeho jak tak co
  nebo které který při bylo
catalan: de la i el que a en les un els per del amb no una es al dels més com seu va s l d però
  aquest és també des
basque: eta da ez bat zen du dira ere izan baina zuen dute egin beste baino ditu duen den bere
  hori oso bi hau zuten dela edo zer nik behar
estonian: ja on ei et see oli ka kui mis ta oma või ning aga mida kes nii olid mul siis selle
  nad midagi juba mitte pole veel seda kas
lithuanian: ir iš į kad su buvo yra tai bet kaip dėl apie ar o jo po nuo iki jų už tik taip jis
  dar arba kuris aš labai ne
indonesian: yang dan di ini dengan untuk pada dari itu dalam tidak adalah akan oleh juga ke ada
  sebagai saya bisa telah atau seperti karena menjadi tersebut
irish: an na agus ar i is a go ag tá ní le do leis bhí sé sí seo sin é ná den mar ach bhfuil
  maidir ina faoi níos cén
esperanto: la de kaj en estas al ne por kiu mi kun li el ke estis tio sed pri ili ĝi kiel pli aŭ
  da kiuj ankau ankaŭ tiu povas oni per
serbian: и је у да се на за су од са није који као из би али што то која био i je u da se na za
  su od s nije koji kao iz bi ali što to koja bio
sesotho: le ka ho ya ea e ba ke a o mme hore tsa sa wa me ha empa bona hae joalo kapa hobane
  haholo batho
slovak: a v sa na je že to s z do aj ako o za by ale po vo pre k som bol sú jeho tak čo alebo
  ktoré ktorý pri bolo
slovene: in je v na se za so da ki z pri pa s tudi ni kot bi od bil po ali lahko še bilo iz o
  ter bila kaj sem ko
galician: de a o que e do da en un para con non unha os no se na por máis as dos como foi ao das
  é pola súa seu tamén
afrikaans: die van en in is het dat te op nie vir met wat om word aan by deur hy as was ook sy n
  hulle kan ek een na
icelandic: og í að á er sem um til var við ekki með en af fyrir það hann ég eru sig hafa verður
  hún frá eftir
latvian: un ir ar no par uz kā lai bet bija tā kas pēc es vai līdz gada tas pie ka nav tika var
  ne to kurš jūs arī
azerbaijani: və bir bu ilə üçün də da olan çox o ki daha sonra hər edir kimi ildə onun nə var
  belə olunur
luxembourgish: de an d vun den der a mat op ass fir ét dat et am vum si gouf net och zu eng hunn
  en sech bei als ware war
russian: и в не на что с по как это из к а за от для о был у он но была были было или при до
  также его их
ukrainian: і в у не на що з за до та це як від для по а його був цей є але чи при він їх було
  також який
belarusian: і ў у на не з што да а як па для ад гэта за быў яго але або таксама які іх
bulgarian: на и да от се в за е не с по са това че си но ще го като той при или то които който
  до
macedonian: на во и да се од за е не со го што ги бил како сум си кој ова по или им но са таа
arabic: في من على إلى أن عن التي الذي مع هذا هذه كان لا ما و أو ذلك بين كانت بعد كما تم لم قبل
  هو هي حتى عام الى ان
persian: و در به از که این را با است آن برای یک بود های خود شد می هم تا بر شده یا ها اما
urdu: کے کی میں ہے کا اور سے کو کہ اس نے ہیں پر یہ بھی کر ایک جو نہیں ہو تھا وہ گیا
pashto: د په او چې چی دی له ته کې کړي دا سره یې هم هغه نه یو شوي دے لپاره
hindi: के में की है का और से को कि ने पर यह इस भी एक हैं नहीं था लिए कर ही थी वह गया
nepali: र मा को ले पनि छ लाई गर्न यो भएको हो भने नेपाल हुने तथा नै छन् गरेको थियो एक भए आफ्नो
  त्यो
marathi: आहे व या आणि ते हे आहेत म्हणून हा होते ही एक तर पण नाही साठी त्या होता झाले केले यांनी
yiddish: און די אין פון דער אז צו נישט וואס האט איז אויף מיט דעם א דאס ער זיך
hebrew: של את על לא הוא או גם כי אל זה עם היא היה יותר כל אותו בין אבל מה
"""
"""Of Latin, Cyrillic, Arabic, Devanagari and Hebrew script; each begins with its language."""


def _listed(text: str) -> dict[str, frozenset[str]]:
    listed: dict[str, list[str]] = {}
    for word in text.split():
        if word.endswith(":"):
            listed[word[:-1]] = words_of = []
        else:
            words_of.append(word)
    return {language: frozenset(words_of) for language, words_of in listed.items()}


FUNCTION_WORDS = _listed(_WORDS)
"""Language -> its commonest words; most of them have no meaning of their own."""

SAMPLE_TEXTS = 500
SAMPLE_CHARACTERS = 1000
"""Of each text that many characters are looked at."""

MIN_UNSPACED_LETTERS = 0.1
"""Share among all letters from which on a script without blanks decides."""

MIN_LATIN_LETTERS = 0.8
MIN_OTHER_LETTERS = 0.5
"""Less, since a stemmer for another script leaves the Latin names between as they are."""

MIN_FUNCTION_WORDS = 0.08
"""Share among the words of a script; 0.15 to 0.4 in prose of all languages that are known."""

MIN_LEAD = 3
"""So many times as often as the other language's own words are those of the language chosen."""

LATIN = "latin"

_SCRIPTS = {
    LATIN: ((0x41, 0x24F), (0x1E00, 0x1EFF)),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "cyrillic": ((0x400, 0x52F),),
    "armenian": ((0x530, 0x58F),),
    "hebrew": ((0x590, 0x5FF),),
    "arabic": ((0x600, 0x6FF), (0x750, 0x77F)),
    "devanagari": ((0x900, 0x97F),),
    "tamil": ((0xB80, 0xBFF),),
}
_ONE_LANGUAGE = ("greek", "armenian", "tamil")
"""Scripts that are of one language, whose stemmer has the same name."""

CHOICES = ("standard", "cjk", "ngrams", "english", *LANGUAGES)
"""The analyzers that may be chosen, by name: what only names one does not depend on its code."""


def detect_analyzer(texts: Iterable[str]) -> str:
    """Return the analyzer for a corpus of these texts.

    ``ngrams`` when at least one letter in ten is Thai, Lao, Khmer or Burmese; ``cjk`` when one in
    ten is Chinese, Japanese or Korean. The stemmer of a language when the letters are mostly of its
    script (80 % for Latin, 50 % for others), at least 8 % of the words of this script are among the
    commonest of the language, and it leads: for each other language, the words that are listed for
    it alone occur at most a third as often as those that are listed for the one chosen alone.
    Otherwise, as for an empty corpus, ``standard``.
    """
    sample = _sample(texts)
    characters = Counter("".join(sample))
    letters = {character: n for character, n in characters.items() if character.isalpha()}
    total = sum(letters.values())
    by_script: Counter[str] = Counter()
    for letter, n in letters.items():
        by_script[_script(letter)] += n
    for unspaced in (NGRAMS.name, CJK_ANALYZER.name):
        if by_script[unspaced] and by_script[unspaced] >= MIN_UNSPACED_LETTERS * total:
            return unspaced
    script = max(_SCRIPTS, key=lambda name: by_script[name])
    share = MIN_LATIN_LETTERS if script == LATIN else MIN_OTHER_LETTERS
    if not by_script[script] or by_script[script] < share * total:
        return STANDARD.name
    return script if script in _ONE_LANGUAGE else _by_language(sample, script)


def _by_language(sample: Iterable[str], script: str) -> str:
    """Return the stemmer of the language that leads, else ``standard``."""
    counts = Counter(word for text in sample for word in words(text))
    here = {word: n for word, n in counts.items() if _script(word[0]) == script}
    language = max(FUNCTION_WORDS, key=lambda name: _occurrences(here, FUNCTION_WORDS[name]))
    listed = FUNCTION_WORDS[language]
    if _occurrences(here, listed) < MIN_FUNCTION_WORDS * sum(here.values()) or not here:
        return STANDARD.name
    for other in FUNCTION_WORDS.values():
        lead = _occurrences(here, listed - other)
        if other != listed and lead < max(1, MIN_LEAD * _occurrences(here, other - listed)):
            return STANDARD.name
    return language if language in CHOICES else STANDARD.name


def _occurrences(counts: dict[str, int], listed: Iterable[str]) -> int:
    return sum(counts.get(word, 0) for word in listed)


@cache
def _script(character: str) -> str:
    """Return the script of a character; scripts without blanks by their analyzer, "" for others."""
    if UNSPACED_CHARACTER.match(character):
        return NGRAMS.name
    if CJK_CHARACTER.match(character):
        return CJK_ANALYZER.name
    code = ord(character)
    for name, ranges in _SCRIPTS.items():
        if any(first <= code <= last for first, last in ranges):
            return name
    return ""


def _sample(texts: Iterable[str]) -> list[str]:
    starts = (text[:SAMPLE_CHARACTERS] for text in texts)
    checksums = ((zlib.crc32(text.encode("utf-8", "surrogatepass")), text) for text in starts)
    return [text for _, text in heapq.nsmallest(SAMPLE_TEXTS, checksums)]


AUTO = "auto"

# Code that a name stands for is found in these tables, see ``analyzer_code``.
ANALYZERS: dict[str, Analyzer] = {
    "english": ENGLISH,
    "standard": STANDARD,
    "cjk": CJK_ANALYZER,
    "ngrams": NGRAMS,
    "whitespace": WHITESPACE,
    **SNOWBALL,
    "jieba": JIEBA,
    "icu": ICU,
}
_CHOOSERS: Mapping[str, Callable[[Iterable[str]], str]] = {"auto": detect_analyzer}


def analyze_all(name: str, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return _analyzer(name).analyze_all(texts)


def resolve_analyzer(name: str, texts: Iterable[str]) -> str:
    """Return ``name``, or what ``auto`` stands for on this corpus."""
    check_analyzer(name)
    choose = _CHOOSERS.get(name)
    return name if choose is None else choose(texts)


def analyzer_code(name: str) -> list[Root]:
    """Return the roots of the code that a name stands for; ``auto`` for all that it may choose."""
    chosen = CHOICES if name == AUTO else (name,)
    entries = ["**SNOWBALL" if name in SNOWBALL else name for name in chosen]
    roots = [f"ANALYZERS[{entry}]" for entry in dict.fromkeys(entries)]
    roots += ["_CHOOSERS[auto]" if name == AUTO else "_CHOOSERS[]"]
    return [f"{__name__}:{root}" for root in roots]


def analyzer_versions(name: str) -> dict[str, str]:
    """Return the versions of Unicode and of the packages that determine the tokens.

    ``auto`` names those of every analyzer that it may choose.
    """
    chosen = map(_analyzer, CHOICES if name == AUTO else (name,))
    packages = sorted({package for analyzer in chosen for package in analyzer.distributions})
    return {"unicode": unicodedata.unidata_version, **{name: version(name) for name in packages}}


def check_analyzer(name: str) -> None:
    """Refuse an unknown name, and an analyzer whose package is not installed."""
    if name == AUTO:
        return
    analyzer = _analyzer(name)
    if analyzer.extra is not None and not all(map(find_spec, analyzer.distributions)):
        raise UsageError(
            f"analyzer {analyzer.name} needs the package {', '.join(analyzer.distributions)}: "
            f"pip install 'rag-assets[{analyzer.extra}]'"
        )


def _analyzer(name: str) -> Analyzer:
    if name not in ANALYZERS:
        raise UsageError(f"analyzer {allowed_names(name, [AUTO, *ANALYZERS])}")
    return ANALYZERS[name]
