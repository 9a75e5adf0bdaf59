"""The documents agree with the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import fault_audit

ROOT = Path(__file__).parents[3]
FAULT = re.compile(r"\]\(fault-tests\.md#([\w-]+)\)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("systemd/*.md")])


def test_pictures_are_small() -> None:
    pictures = sorted(ROOT.glob("docs/*.png"))
    assert pictures
    assert not [picture.name for picture in pictures if picture.stat().st_size >= 300_000]


def test_the_page_of_fault_tests_is_current() -> None:
    assert fault_audit.PAGE.read_text("utf-8") == fault_audit.page(), "run `make fault-tests`"


def test_every_fault_in_the_documents_has_a_test_and_every_marked_fault_a_description() -> None:
    linked = {
        fault for document in DOCUMENTS for fault in FAULT.findall(document.read_text("utf-8"))
    }
    assert len(linked) > 100
    assert linked == set(fault_audit.marked_tests())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_links_to_exists(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
