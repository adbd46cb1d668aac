"""What writes an answer from a context, one type a module."""
