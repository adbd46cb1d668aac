"""Write four variants of every question of a SQuAD file, by rules, without a model.

    python benchmarks/rule_variants.py squad_sample_400.json variants.jsonl

A variant has words of its question alone: all its content words; those with a capital letter or a
digit, or the three longest; the first half of the content words; and the second half. Each so asks
for the same from another side, as paraphrases are told to, and each search knows less than the
question. A variant that is empty, or one of the others, is left out. What a large model would write
they do not show.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

_WORD = re.compile(r"[^\W_]+(?:[-'.,][^\W_]+)*")
_FUNCTION_WORDS = """
a about an and any are as at be been being by can could did do does for from had has have
how if in into is it its many may much of on or other out over shall should some than that
the their them there these they this those to under up was were what when where which who
whom whose why will with would
"""


def variants(question: str) -> list[str]:
    """Return the different variants of a question, at most four."""
    function_words = _FUNCTION_WORDS.split()
    words = _WORD.findall(question)
    content = [word for word in words if word.lower() not in function_words]
    named = [word for word in content if not word.islower()]
    longest = sorted(content, key=len, reverse=True)[:3]
    half = (len(content) + 1) // 2
    chosen = (content, named or longest, content[:half], content[half:])
    texts = dict.fromkeys(" ".join(one) for one in chosen)
    return [text for text in texts if text and text != question]


def main() -> None:
    """Read a SQuAD file, write a line for each of its questions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    asked = parser.parse_args()
    content = json.loads(asked.source.read_text(encoding="utf-8"))
    rows = [
        {"query_id": question["id"], "variants": variants(question["question"])}
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    asked.target.write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
