"""The pages of `macontrol report` and `compare` in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import macontrol
from macontrol.cli import main
from macontrol.config import load_config
from support.browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: chromium)")

CONFIG = load_config().replace(algorithm__grid_spacing=0.06, survey__samples=20)
# Texts of axes that lie on each other, in pairs.
OVERLAPS = """
[...document.querySelectorAll(".plot .x, .plot .y")].flatMap(axis => {
  const boxes = [...axis.querySelectorAll("span")].map(e => e.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
}).length
"""
# A cell that is narrower breaks words into letters.
NARROWEST = """
Math.min(...[...document.querySelectorAll("td")].map(e => e.getBoundingClientRect().width)
  .filter(width => width > 0))
"""
# The smallest ratio of brightness between a text and its background, as WCAG defines it.
CONTRAST = """
(() => {
  const level = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = level(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll("p, td, th, h1, h2, .plot span, summary")]
    .map(e => level(getComputedStyle(e).color))
    .map(ink => (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05)));
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for policy in ("moveucb", "fixed"):
        macontrol.run_simulated(policy, CONFIG, slots=400, run_file=folder / policy)
    report, comparison = folder / "report.html", folder / "comparison.html"
    assert main(["report", str(folder / "moveucb"), "--out", str(report)]) == 0
    words = ["compare", str(folder / "moveucb"), str(folder / "fixed"), "--out", str(comparison)]
    assert main(words) == 0
    return {"report": report, "comparison": comparison}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("name", ["report", "comparison"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)])
def test_a_page_renders_and_fetches_nothing(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.requests.clear()
    browser.problems.clear()
    browser.open(pages[name].as_uri(), width=width, dark=dark)
    assert browser.problems == []
    others = [url for url in browser.requests if not url.startswith("data:")]
    assert others == [pages[name].as_uri()]
    assert browser.value("document.title")
    plots = browser.value(
        "[...document.querySelectorAll('.plot > svg')].map(e => e.getBoundingClientRect())"
        ".map(r => [r.width, r.height])"
    )
    assert len(plots) >= 3
    assert all(wide > 180 and high > 100 for wide, high in plots)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(OVERLAPS) == 0
    assert browser.value(NARROWEST) > 60
    assert browser.value(CONTRAST) > 4.5
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3]))
    assert (brightness < 200) == dark
    if name == "report":
        drawn = browser.value("document.querySelector('.plot image').getBoundingClientRect().width")
        assert drawn > 180
