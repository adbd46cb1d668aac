"""Verdicts of judges: how relevant a passage is, and whether an answer is right."""
