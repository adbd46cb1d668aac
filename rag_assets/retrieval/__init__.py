"""The types that a retriever of an ``experiment.yaml`` may have: one file a type.

A type is a pydantic model of its options, and knows how to index, search, fuse or rerank with them.
"""
