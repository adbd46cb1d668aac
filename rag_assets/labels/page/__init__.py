"""A page on this machine to give labels on: one question and one passage at a time."""
