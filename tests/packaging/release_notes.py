"""The notes of a release: its section of CHANGELOG.md.

``python -m tests.packaging.release_notes v1.2.0`` prints them, and fails where the tag, the version
of pyproject.toml and the changelog do not say the same. It needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - \d{4}-\d{2}-\d{2})?$", re.MULTILINE)


def release_notes(tag: str, project_version: str, changelog: str) -> str:
    """Return the text below the version's heading.

    Raises:
        ValueError: the tag is of another version, or the changelog has no such section, or an
            empty one.
    """
    version = tag.removeprefix("v")
    if tag != f"v{project_version}":
        raise ValueError(f"tag {tag}, but pyproject.toml has version {project_version}")
    headings = list(_HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading["version"] == version:
            later = headings[number + 1 :]
            text = changelog[heading.end() : later[0].start() if later else None].strip()
            if not text:
                raise ValueError(f"CHANGELOG.md says nothing below [{version}]")
            return text + "\n"
    versions = ", ".join(heading["version"] for heading in headings)
    raise ValueError(f"CHANGELOG.md has no section [{version}], only {versions}")


def main(tag: str) -> int:
    """Print the notes of a tag."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        sys.stdout.write(release_notes(tag, project["version"], changelog))
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
