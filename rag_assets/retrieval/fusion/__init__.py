"""Combines rankings of other retrievers into one: one method a file."""
