"""Judging without labels: what was retrieved goes to people, and what they say becomes qrels."""
