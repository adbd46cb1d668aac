"""Write ``code_versions.json``: run as ``python -m tests.write_code_versions``."""

from __future__ import annotations

import json

from tests.code_hashes import LOCK_FILE, found


def main() -> None:
    """Write the lock file."""
    LOCK_FILE.write_text(f"{json.dumps(found(), indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
