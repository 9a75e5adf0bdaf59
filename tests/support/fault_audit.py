"""Lists which tests check which fault, from the marks on the tests.

A test that checks what happens at a fault carries `@pytest.mark.fault("id", ...)`. The documents
link to the ids. `make fault-tests` writes the list to docs/fault-tests.md.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/fault-tests.md"

_INTRODUCTION = """\
# Tests by fault

Which tests check which fault of [faults.md](faults.md). This page is generated from the marks
`@pytest.mark.fault("id")` on the tests: run `make fault-tests` after a change.
"""


def marked_tests() -> dict[str, list[str]]:
    """The tests of each fault id, as pytest names them; both sorted."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, ids in _marks_in(ast.parse(file.read_text("utf-8")), ""):
            for fault in ids:
                found[fault].append(f"{file.relative_to(ROOT).as_posix()}::{test}")
    return {fault: sorted(found[fault]) for fault in sorted(found)}


def page() -> str:
    """The content of docs/fault-tests.md."""
    parts = [_INTRODUCTION]
    for fault, tests in marked_tests().items():
        parts.append(f"## {fault}\n\n" + "".join(f"- `{test}`\n" for test in tests))
    return "\n".join(parts)


def _marks_in(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, list[str]]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _marks_in(child, f"{prefix}{child.name}::")
        elif isinstance(child, ast.FunctionDef):
            for decorator in child.decorator_list:
                if isinstance(decorator, ast.Call) and (
                    ast.unparse(decorator.func) == "pytest.mark.fault"
                ):
                    yield prefix + child.name, [ast.literal_eval(arg) for arg in decorator.args]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written\n")
