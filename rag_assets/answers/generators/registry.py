"""All generator types."""

from __future__ import annotations

from rag_assets.answers.generators.base import Generator
from rag_assets.answers.generators.extractive import ExtractiveGenerator
from rag_assets.answers.generators.file import FileGenerator
from rag_assets.answers.generators.llm import LlmGenerator

GENERATOR_TYPES: dict[str, type[Generator]] = {
    "llm": LlmGenerator,
    "extractive": ExtractiveGenerator,
    "file": FileGenerator,
}
