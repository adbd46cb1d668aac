"""Checks of what is up to date: labels, runs, metrics, and drift from the pinned evaluation."""
