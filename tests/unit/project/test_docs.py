"""What the documents say of the repository is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEST = re.compile(r"(tests/[\w/]+\.py)((?:::\w+)*)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("systemd/*.md")])


def names_in(file: Path) -> set[str]:
    """The tests of a file, those of a class as Class::test."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


def test_pictures_are_small() -> None:
    pictures = sorted(ROOT.glob("docs/*.png"))
    assert pictures
    assert not [picture.name for picture in pictures if picture.stat().st_size >= 300_000]


def test_every_test_that_the_table_of_faults_names_exists() -> None:
    named = TEST.findall((ROOT / "docs/faults.md").read_text("utf-8"))
    named = [(ROOT / path, name.removeprefix("::")) for path, name in named]
    assert len(named) > 40
    known = {file: names_in(file) for file in {file for file, _ in named} if file.exists()}
    missing = [
        f"{file.relative_to(ROOT)}::{name}"
        for file, name in named
        if file not in known or (name and name not in known[file])
    ]
    assert not missing, "\n".join(["no such test:", *missing])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_links_to_exists(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
