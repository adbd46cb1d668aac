"""An experiment that asks a language model."""

from __future__ import annotations

from tests.tiny_experiment import Tiny

KEY_VARIABLE = "A_KEY_OF_TESTS"


def ask(tiny: Tiny, base_url: str, key_variable: str = KEY_VARIABLE, **llm: object) -> Tiny:
    """Add a retriever whose queries a server rewrites; our client itself never asks twice."""
    tiny.config["llm"] = {
        "model": "m",
        "base_url": base_url,
        "api_key_env": key_variable,
        "retries": 0,
        **llm,
    }
    tiny.config["query_sets"] = {"clear": {"strategy": "rewrite"}}
    bm25 = tiny.config["retrievers"]["bm25"]
    tiny.config["retrievers"] = {"bm25": bm25, "clear": {**bm25, "query_set": "clear"}}
    tiny.write_config()
    return tiny
