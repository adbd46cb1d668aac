"""Cuts documents into chunks: one strategy a file, all from Arrow table to Arrow table."""
