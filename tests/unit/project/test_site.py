"""The documentation site builds strictly, fetches nothing, and its references are complete."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import macontrol
from macontrol.cli import COMMANDS
from macontrol.config import load_config, preset_names
from macontrol.config.loading import values_of

ROOT = Path(__file__).parents[3]
PAGES = ("write-a-policy.html", "service.html", "changelog.html", "contributing.html")
pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs/site/build.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Assets(HTMLParser):
    """The addresses that a browser fetches to show a page, and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = {"link": ("href",), "a": ()}.get(tag, ("src", "srcset", "poster", "data"))
        self.addresses += [value or "" for name, value in attributes if name in names]

    def handle_data(self, text: str) -> None:
        self.text += text


def page(site: Path, name: str) -> Assets:
    return Assets((site / name).read_text("utf-8"))


def test_every_document_is_a_page(site: Path) -> None:
    expected = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    found = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}
    assert {each.replace("README.md", "index.md") for each in expected} <= found
    assert all((site / name).exists() for name in PAGES)


def test_no_page_fetches_anything_from_the_internet(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for path in pages:
        found = Assets(path.read_text("utf-8")).addresses
        assert found
        assert [each for each in found if re.match(r"(https?:)?//", each)] == [], path
    for path in site.rglob("*.css"):
        assert re.findall(r"url\(\s*['\"]?(?:https?:)?//|@import", path.read_text("utf-8")) == []


def test_tables_and_lists_are_not_left_as_text(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert "|---" not in text, path
        assert re.findall(r"<p>(?:[-*] |\d+\. )|^- \w", text, re.MULTILINE) == [], path


@pytest.mark.parametrize("preset", preset_names())
def test_the_configuration_reference_has_every_key(site: Path, preset: str) -> None:
    text = (site / "reference/configuration.html").read_text("utf-8")
    for path, _ in values_of(load_config(preset=preset)):
        assert f"<code>{path}</code>" in text


def test_every_key_has_a_meaning_and_every_length_a_unit(site: Path) -> None:
    text = (site / "reference/configuration.html").read_text("utf-8")
    rows = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in text.split("<tr>")]
    rows = [row for row in rows if len(row) == 6]
    assert len(rows) > 100
    assert [row[0] for row in rows if not row[4]] == []
    by_key = {re.sub("<.*?>", "", row[0]): row for row in rows}
    assert by_key["physical.stroke"][2] == "wavelengths"
    assert by_key["timing.fault_patience_s"][2:4] == ["s", "<code>30.0</code>"]
    assert by_key["reward.snr_db"][3:6:2] == ["<code>10.0</code>", ""]
    assert by_key["survey.samples"][5].startswith("<code>61</code>: lab-2g4-grbl")


def test_the_command_reference_has_every_command(site: Path) -> None:
    text = page(site, "reference/commands.html").text
    assert "--backend {sim,serial}" in text
    for command in COMMANDS:
        assert f"macontrol {command}" in text


def test_the_python_reference_has_every_promised_name(site: Path) -> None:
    text = page(site, "reference/python.html").text
    for name in macontrol.__all__:
        assert f"macontrol.{name}" in text
    assert "simulate_map( config: Config | None = None," in " ".join(text.split())
    assert "Read a run file, of a finished or of a running run." in text
    assert "What it earns in each slot, without noise." in text
