"""The documents agree with the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from macontrol.cli import COMMANDS
from macontrol.config import load_config, preset_names
from macontrol.config.model import errors
from macontrol.controller.recording.events import REASONS
from support import control_page, fault_audit, run_file_page

ROOT = Path(__file__).parents[3]
FAULT = re.compile(r"\]\(fault-tests\.md#([\w-]+)\)")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?<![\w/.$])(?:config|controller|hal|sim|src|systemd|tests|docs)/[\w./@-]*\w")
SETTING = re.compile(
    r"(?<![\w/.-])(?:physical|reward|kernel|algorithm|survey|channel|drift|timing|stage|probe|run)\.[a-z][\w.]*\w"
)
COMMAND = re.compile(r"^(?:sudo )?macontrol ([a-z][a-z-]*)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("systemd/*.md")])
# The changelog and the log of config changes also name what no longer exists.
OF_TODAY = [
    document for document in DOCUMENTS if document.name not in ("CHANGELOG.md", "config-changes.md")
]
ALL_PICTURES = sorted(ROOT.glob("docs/**/*.png"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(document: Path) -> str:
    return document.read_text("utf-8")


def code_in(document: Path) -> Iterator[str]:
    """The inline code of a document, and the lines of its code blocks but Python's."""
    text = re.sub(r"^```python\n.*?^```$", "", read(document), flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"^ *```.*$", text, flags=re.MULTILINE)
    for outside in parts[::2]:
        yield from CODE.findall(outside)
    for block in parts[1::2]:
        yield from (line.strip() for line in block.splitlines())


def anchors(document: Path) -> set[str]:
    """The anchors that a web view makes of the headings of a document."""
    prose = "".join(re.split(r"^```.*$", read(document), flags=re.MULTILINE)[::2])
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def keys_of(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        yield prefix + key
        if isinstance(value, Mapping):
            yield from keys_of(value, f"{prefix}{key}.")


def test_every_picture_is_small_and_shown() -> None:
    shown = {
        (document.parent / link).resolve()
        for document in DOCUMENTS
        for link, _ in LINK.findall(read(document))
    }
    assert ALL_PICTURES
    assert not [name_of(picture) for picture in ALL_PICTURES if picture.stat().st_size >= 100_000]
    assert not [name_of(picture) for picture in ALL_PICTURES if picture not in shown]


def test_the_page_of_fault_tests_is_current() -> None:
    assert fault_audit.PAGE.read_text("utf-8") == fault_audit.page(), "run `make fault-tests`"


def test_the_page_of_the_run_file_is_current() -> None:
    assert run_file_page.PAGE.read_text("utf-8") == run_file_page.page(), "run `make docs`"


def test_the_page_of_the_control_socket_is_current() -> None:
    assert control_page.PAGE.read_text("utf-8") == control_page.page(), "run `make docs`"


def test_the_page_of_probes_explains_known_reasons() -> None:
    section = read(ROOT / "docs/probes.md").split("## Reasons")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    assert listed
    assert listed <= set(REASONS)


def test_every_fault_in_the_documents_has_a_test_and_every_marked_fault_a_description() -> None:
    linked = {fault for document in DOCUMENTS for fault in FAULT.findall(read(document))}
    assert len(linked) > 100
    assert linked == set(fault_audit.marked_tests())


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading_of_it(document: Path) -> None:
    broken = []
    for link, anchor in LINK.findall(read(document)):
        if "://" in link:
            continue
        target = (document.parent / link) if link else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{link}#{anchor}")
    assert broken == []


@pytest.mark.parametrize("document", OF_TODAY, ids=name_of)
def test_every_path_in_a_document_exists(document: Path) -> None:
    named = {path for code in code_in(document) for path in PATH.findall(code)}
    # A name in capitals stands for any name.
    named = {path for path in named if not re.search(r"/[A-Z]+(/|$)", path)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("document", OF_TODAY, ids=name_of)
def test_every_setting_in_a_document_exists(document: Path) -> None:
    configs = [load_config(preset=name) for name in preset_names()]
    configs += [load_config(None, [f"probe.driver={name}"]) for name in ("soapy", "line", "scpi")]
    known = {key for config in configs for key in keys_of(config.model_dump())}
    named = {
        setting
        for code in code_in(document)
        for setting in SETTING.findall(code)
        if not setting.endswith((".npz", ".png", ".sqlite", ".html", ".nc"))
    }
    assert sorted(named - known) == []


@pytest.mark.parametrize("document", OF_TODAY, ids=name_of)
def test_every_command_in_a_document_exists(document: Path) -> None:
    named = {match[1] for code in code_in(document) if (match := COMMAND.match(code))}
    assert sorted(named - set(COMMANDS) - {"help", "version"}) == []


def test_the_table_of_exit_codes_is_complete() -> None:
    section = read(ROOT / "docs/operate.md").split("## Exit codes")[1].split("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.MacontrolError)
    }
    assert listed == raised | {0, 1}


def test_the_readme_lists_the_debian_packages_that_make_test_installs() -> None:
    lines = read(ROOT / "tests/apt-packages.txt").splitlines()
    packages = {line.split()[0] for line in lines if line and not line.startswith("#")}
    paragraph = next(p for p in read(ROOT / "README.md").split("\n\n") if "**`make test`**" in p)
    assert packages <= set(CODE.findall(paragraph))
