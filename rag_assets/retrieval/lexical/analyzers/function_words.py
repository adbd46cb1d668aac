# ruff: noqa: RUF001 - many letters of other scripts look like Latin ones
"""The commonest words of languages, by which ``auto`` tells them apart.

Languages without a stemmer are here too, where they share words with one that has: what looks like
Danish may be Icelandic. All words are as :func:`.words.words` gives
them.
"""

from __future__ import annotations

_WORDS = {
    # Latin script
    "english": (
        "the of and to a in is that was for with as are this it from which has their they by be "
        "were on at or have not an his"
    ),
    "german": (
        "der die und in den von zu das mit sich des auf ist im dem nicht ein eine als auch es an "
        "er so dass nach bei aus wird sind einer wurde oder"
    ),
    "french": (
        "de la le et les des en un du une que est dans qui par pour au il sur ne pas plus se ce "
        "sont avec son aux d l cette ou"
    ),
    "spanish": (
        "de la que el en y a los se del las un por con no una su para es al lo como más fue o sus "
        "este son entre"
    ),
    "italian": (
        "di e il la che in a per un del è i le con della si una non da gli al dei nel sono anche "
        "l alla come dell più"
    ),
    "portuguese": (
        "de a o que e do da em um para com não uma os no se na por mais as dos como foi ao das é "
        "pelo são sua seu"
    ),
    "dutch": (
        "de van een en het in is dat op te zijn met voor die niet aan er om ook als dan door bij "
        "naar uit werd worden wordt deze ze"
    ),
    "danish": (
        "og i at er det en til af den på for med der de ikke som et har var jeg han fra ved blev "
        "efter mig sig hvad meget også vi kan"
    ),
    "norwegian": (
        "og i er det en til av på å for med at som de den ikke et har var jeg fra ble han etter "
        "meg seg hva også vi kan blir nå"
    ),
    "swedish": (
        "och i att det som en på är av för med till den har de inte om ett var jag han från efter "
        "sig också eller vid kan vi"
    ),
    "finnish": (
        "ja on ei että oli se hän myös mutta ovat kun kuin joka sen tai niin voi hänen jos olla "
        "olivat nyt sekä jotka tämä mukaan mitä minun"
    ),
    "hungarian": (
        "a az és hogy nem is egy volt meg de csak ezt ez vagy van el mint már ki azt itt minden "
        "számára amely ha pedig szerint lehet után"
    ),
    "turkish": (
        "ve bir bu da de için ile olarak çok daha olan gibi kadar ama ne o en ya var sonra değil "
        "her ben mi tarafından oldukça olduğunu ise"
    ),
    "romanian": (
        "de și şi în a la cu nu o din pe care să un este mai pentru ce că se au fost prin sau lui "
        "dar sunt al unei după"
    ),
    "polish": (
        "w i na z do nie się że jest to o od za po jak co był jako dla przez tym oraz ale tego "
        "który była przy mnie czy są"
    ),
    "czech": (
        "a v se na je že to s z do i jako o za by ale po ve pro k jsem byl jsou jeho jak tak co "
        "nebo které který při bylo"
    ),
    "catalan": (
        "de la i el que a en les un els per del amb no una es al dels més com seu va s l d però "
        "aquest és també des"
    ),
    "basque": (
        "eta da ez bat zen du dira ere izan baina zuen dute egin beste baino ditu duen den bere "
        "hori oso bi hau zuten dela edo zer nik behar"
    ),
    "estonian": (
        "ja on ei et see oli ka kui mis ta oma või ning aga mida kes nii olid mul siis selle nad "
        "midagi juba mitte pole veel seda kas"
    ),
    "lithuanian": (
        "ir iš į kad su buvo yra tai bet kaip dėl apie ar o jo po nuo iki jų už tik taip jis dar "
        "arba kuris aš labai ne"
    ),
    "indonesian": (
        "yang dan di ini dengan untuk pada dari itu dalam tidak adalah akan oleh juga ke ada "
        "sebagai saya bisa telah atau seperti karena menjadi tersebut"
    ),
    "irish": (
        "an na agus ar i is a go ag tá ní le do leis bhí sé sí seo sin é ná den mar ach bhfuil "
        "maidir ina faoi níos cén"
    ),
    "esperanto": (
        "la de kaj en estas al ne por kiu mi kun li el ke estis tio sed pri ili ĝi kiel pli aŭ da "
        "kiuj ankau ankaŭ tiu povas oni per"
    ),
    "serbian": (
        "и је у да се на за су од са није који као из би али што то која био i je u da se na za "
        "su od s nije koji kao iz bi ali što to koja bio"
    ),
    "sesotho": (
        "le ka ho ya ea e ba ke a o mme hore tsa sa wa me ha empa bona hae joalo kapa hobane "
        "haholo batho"
    ),
    "slovak": (
        "a v sa na je že to s z do aj ako o za by ale po vo pre k som bol sú jeho tak čo alebo "
        "ktoré ktorý pri bolo"
    ),
    "slovene": (
        "in je v na se za so da ki z pri pa s tudi ni kot bi od bil po ali lahko še bilo iz o ter "
        "bila kaj sem ko"
    ),
    "galician": (
        "de a o que e do da en un para con non unha os no se na por máis as dos como foi ao das é "
        "pola súa seu tamén"
    ),
    "afrikaans": (
        "die van en in is het dat te op nie vir met wat om word aan by deur hy as was ook sy n "
        "hulle kan ek een na"
    ),
    "icelandic": (
        "og í að á er sem um til var við ekki með en af fyrir það hann ég eru sig hafa verður hún "
        "frá eftir"
    ),
    "latvian": (
        "un ir ar no par uz kā lai bet bija tā kas pēc es vai līdz gada tas pie ka nav tika var "
        "ne to kurš jūs arī"
    ),
    "azerbaijani": (
        "və bir bu ilə üçün də da olan çox o ki daha sonra hər edir kimi ildə onun nə var belə "
        "olunur"
    ),
    "luxembourgish": (
        "de an d vun den der a mat op ass fir ét dat et am vum si gouf net och zu eng hunn en "
        "sech bei als ware war"
    ),
    # Cyrillic script
    "russian": (
        "и в не на что с по как это из к а за от для о был у он но была были было или при до "
        "также его их"
    ),
    "ukrainian": (
        "і в у не на що з за до та це як від для по а його був цей є але чи при він їх було також "
        "який"
    ),
    "belarusian": "і ў у на не з што да а як па для ад гэта за быў яго але або таксама які іх",
    "bulgarian": (
        "на и да от се в за е не с по са това че си но ще го като той при или то които който до"
    ),
    "macedonian": (
        "на во и да се од за е не со го што ги бил како сум си кој ова по или им но са таа"
    ),
    # Arabic script
    "arabic": (
        "في من على إلى أن عن التي الذي مع هذا هذه كان لا ما و أو ذلك بين كانت بعد كما تم لم قبل "
        "هو هي حتى عام الى ان"
    ),
    "persian": "و در به از که این را با است آن برای یک بود های خود شد می هم تا بر شده یا ها اما",
    "urdu": "کے کی میں ہے کا اور سے کو کہ اس نے ہیں پر یہ بھی کر ایک جو نہیں ہو تھا وہ گیا",
    "pashto": "د په او چې چی دی له ته کې کړي دا سره یې هم هغه نه یو شوي دے لپاره",
    # Devanagari script
    "hindi": "के में की है का और से को कि ने पर यह इस भी एक हैं नहीं था लिए कर ही थी वह गया",
    "nepali": ("र मा को ले पनि छ लाई गर्न यो भएको हो भने नेपाल हुने तथा नै छन् गरेको थियो एक भए आफ्नो त्यो"),
    "marathi": ("आहे व या आणि ते हे आहेत म्हणून हा होते ही एक तर पण नाही साठी त्या होता झाले केले यांनी"),
    # Hebrew script
    "yiddish": "און די אין פון דער אז צו נישט וואס האט איז אויף מיט דעם א דאס ער זיך",
    "hebrew": "של את על לא הוא או גם כי אל זה עם היא היה יותר כל אותו בין אבל מה",
}

FUNCTION_WORDS = {language: frozenset(found.split()) for language, found in _WORDS.items()}
"""Language -> its commonest words; most of them have no meaning of their own."""
