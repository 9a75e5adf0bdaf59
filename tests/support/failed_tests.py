"""List the tests that failed in the last run; exit with 1 if running them again is no use.

usage: failed_tests.py MOST

It is no use if nothing failed (then pytest itself did), if more than MOST tests failed, or if a
file could not be collected.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(most: int) -> int:
    names = list(json.loads(LAST_FAILED.read_text("utf-8"))) if LAST_FAILED.is_file() else []
    if not 0 < len(names) <= most or not all("::" in name for name in names):
        return 1
    print("== failed beside other tests, and run again alone:", *names, sep="\n==   ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
