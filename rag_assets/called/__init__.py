"""Code and servers of the user: how they are called, and what they may return."""
