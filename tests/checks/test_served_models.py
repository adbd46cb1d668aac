"""A server that exchanges the model behind a name fails a check."""

from __future__ import annotations

from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import CheckResult
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.stage import answers_key
from tests.llm.server import Received, Reply, Server, json_reply, serving
from tests.tiny_experiment import QUERIES, Tiny


def checked(tiny: Tiny) -> list[CheckResult]:
    tiny.run()
    pipeline, key = tiny.pipeline(), answers_key("clear")
    return results_of(pipeline, STAGES[key.asset], pipeline.materialize(key.asset, [key]))


def served_by(server: Server, name: str | None) -> None:
    def reply(request: Received) -> Reply:
        message = {"role": "assistant", "content": f"clear {len(request.text)}"}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        head = {"id": "x", "object": "chat.completion", "model": name}
        server.received.append(request)
        return json_reply({**head, "choices": choices})

    server.reply = reply  # type: ignore[method-assign]


def test_another_model_behind_the_name_fails(fresh: Tiny) -> None:
    with serving() as server:
        fresh.config["llm"] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
        fresh.config["query_sets"] = {"clear": {"strategy": "rewrite"}}
        kept = {**fresh.config["retrievers"]["bm25"], "query_set": "clear"}
        fresh.config |= {"retrievers": {"bm25": kept}, "top_k": [5]}
        fresh.write_config()
        served_by(server, "m-2026-01")
        (result,) = checked(fresh)
        assert (result.passed, result.severity) == (True, "warning")
        assert len(server.received) == 6
        served_by(server, "m-2026-02")
        assert checked(fresh)[0].passed  # nothing is asked
        fresh.write_rows("queries.jsonl", [*QUERIES, {"query_id": "q7", "text": "new", "tags": []}])
        (result,) = checked(fresh)
        assert len(server.received) == 7
        assert not result.passed
        assert result.summary == (
            "The server answered by the model m-2026-02, and before by m-2026-01: name the one "
            "that is meant, with its version, as `model`"
        )
        fresh.config["llm"]["model"] = "other"
        fresh.write_config()
        served_by(server, None)
        assert checked(fresh) == []
