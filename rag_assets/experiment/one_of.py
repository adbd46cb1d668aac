"""A block of an ``experiment.yaml`` whose type stands in it by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from rag_assets.options import Options


class OneOf:
    """Annotates a value that is of one of several types; others than the one named stay unused.

    It is pydantic's tagged union, with its errors, but asks for a type when a block names it.
    """

    def __init__(self, types: Mapping[str, type[Options]], key: str) -> None:
        """Take the types by their names, and the key under which a block has its name."""
        self._types = types
        self._key = key

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of pydantic's core."""
        choices: dict[Any, CoreSchema] = {
            name: core_schema.no_info_plain_validator_function(partial(self._validated, name))
            for name in self._types
        }
        return core_schema.tagged_union_schema(choices, self._key)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return that it is a block."""
        return {"type": "object"}

    def _validated(self, name: str, block: object) -> Options:
        return self._types[name].model_validate(block)
