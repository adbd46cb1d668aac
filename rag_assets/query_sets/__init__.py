"""Query sets: what is really searched for each query, one strategy a file."""
