"""What the blocks of an ``experiment.yaml`` are made of: strict, frozen, with no unknown key."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from rag_assets.errors import allowed_names

MAX_DEPTH = 2**31 - 1
"""The largest cut-off or depth: ranks are 32-bit integers."""

# Strict: a text such as '5' or the word `yes` is not taken for a number.
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]

MUST_BE_MAPPING = "must be a mapping of keys to values"
MAX_SHOWN = 80
"""Characters of a wrong value that are shown."""

Location = tuple[int | str, ...]
"""Keys and numbers of list items from the top of a file down to a value."""


class KeyProblem(ValueError):
    """What is wrong with the value at a location; who has read the file knows its line.

    A validator of a block may raise it too; the location then begins at the block.
    """

    def __init__(self, location: Location, problem: str) -> None:
        super().__init__(problem)
        self.location = location


def shown_value(value: object) -> str:
    """Return a wrong value as an error shows it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


class Options(BaseModel):
    """Keys of one block of an ``experiment.yaml``; an unknown key is an error.

    The validator of a type is built when a block of it is first read: most types are never used.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _has_known_keys(cls, block: object) -> object:
        for key in block if isinstance(block, Mapping) else ():
            fields = cls.model_fields
            keys = [field.alias or name for name, field in fields.items()]
            if key not in keys and key not in fields:
                raise KeyProblem((key,), f"unknown key {allowed_names(str(key), keys)}")
        return block


class Role(Enum):
    """What an option determines, where it is declared; one without a role determines the index."""

    INDEX = "index"
    SEARCH = "search"
    MODEL = "model"  # and stands in ``describe``
    NOTHING = "nothing"


def options_of(options: Options, *roles: Role) -> dict[str, Any]:
    """Return the options that have one of these roles, those in blocks too."""
    dumped, chosen = options.model_dump(mode="json"), dict[str, Any]()
    for name, role in _roles(type(options)).items():
        value = getattr(options, name)
        if isinstance(value, Options) and role is not Role.NOTHING:
            chosen |= {name: block} if (block := options_of(value, *roles)) else {}
        elif name in dumped and role in roles:
            chosen[name] = dumped[name]
    return chosen


@cache
def _roles(options: type[Options]) -> Mapping[str, Role]:
    """Return the role of each option, in their order."""
    fields = options.model_fields.items()
    declared = {name: [p for p in field.metadata if isinstance(p, Role)] for name, field in fields}
    return {name: roles[0] if roles else Role.INDEX for name, roles in declared.items()}


class FileOptions(Options):
    """Options of which some may name a file.

    Attributes:
        file_options: options that name a file; its content counts, not its name.
    """

    file_options: ClassVar[tuple[str, ...]] = ()

    def files(self) -> Mapping[str, Path]:
        """Return option -> the file that it names."""
        named = {option: getattr(self, option) for option in self.file_options}
        return {option: Path(value) for option, value in named.items() if value is not None}

    def with_files(self, files: Mapping[str, Path]) -> Self:
        """Return the options with other paths to the files that :meth:`files` gives."""
        return self.model_copy(update=dict(files))


class LazyTaggedUnion:
    """Annotates a value that is of one of several types; others than the one named stay unused.

    A type is asked for when a block names it.
    """

    def __init__(self, types: Mapping[str, type[Options]], key: str) -> None:
        """Take the types by their names, and the key under which a block has its name."""
        self.types = types
        self._key = key

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of pydantic's core."""
        return core_schema.no_info_plain_validator_function(self._validated)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return that it is a block, and which types it may name."""
        names = {self._key: {"enum": list(self.types)}}
        return {"type": "object", "required": [self._key], "properties": names}

    def _validated(self, block: object) -> Options:
        if isinstance(block, Options):
            return block
        if not isinstance(block, Mapping):
            raise ValueError(f"{MUST_BE_MAPPING}; found {shown_value(block)}")
        if self._key not in block:
            problem = f"needs the key '{self._key}', one of {', '.join(self.types)}"
            raise KeyProblem((), problem)
        name = str(block[self._key])
        if name not in self.types:
            raise KeyProblem((self._key,), f"unknown {self._key} {allowed_names(name, self.types)}")
        return self.types[name].model_validate(block)
