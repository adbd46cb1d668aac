"""Searches that are not ours: a function, a service, a database, with chunks of their own."""
