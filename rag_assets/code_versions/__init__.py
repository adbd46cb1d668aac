"""Code versions: hashes of all code that a computation can reach, found in the source."""
