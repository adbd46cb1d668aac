"""Asks for all answers, in a process that may be killed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rag_assets.llm.completions import Completions
from rag_assets.llm.models import OpenAICompatible
from rag_assets.llm.replies import ReplyStore
from tests.llm.requests import asking, completion, served

# Nobody listens there: the first request loads what a client needs, once for all forked processes.
OpenAICompatible(served("http://127.0.0.1:9/v1", retries=0)).answer(asking(""))


def answer_all(base_url: str, folder: Path, n: int) -> str:
    """Return the hash of the texts of all answers, written beside the folder too."""
    model = OpenAICompatible(served(base_url, concurrency=4, retries=0))
    answers = Completions(model, ReplyStore(folder)).answer([asking(f"q{i}.") for i in range(n)])
    texts = "\0".join(completion(one).text for one in answers)
    found = hashlib.sha256(texts.encode()).hexdigest()
    folder.with_suffix(f".{os.getpid()}").write_text(found)
    return found
