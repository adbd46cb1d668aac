"""Local models: from a name to files, loaded once, and what texts become by them."""
