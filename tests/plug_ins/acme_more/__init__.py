"""A package that adds what CONTRIBUTING.md shows no walk for: its tests are those of plug-ins."""
