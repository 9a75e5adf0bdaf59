"""Debian's Chromium, driven by Selenium; it fetches nothing by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = CHROMIUM is None or DRIVER is None
REASON = "needs chromium and chromedriver (Debian: chromium chromium-driver)"
_FLAGS = (
    "--headless",
    "--no-sandbox",  # refused to root and in containers; the page is our own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-proxy-server",
    "--window-size=1280,900",
)

# The visible texts whose contrast with the background is too low, as WCAG computes it.
LOW_CONTRAST = """
const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const channel = (v) => (v /= 255, v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
function background(node) {
  const over = [];
  for (let at = node; at; at = at.parentElement) {
    const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
    if (a > 0) over.push([r, g, b, a]);
    if (a === 1) break;
  }
  return over.reverse().reduce((below, [r, g, b, a]) =>
    [r, g, b].map((v, i) => v * a + below[i] * (1 - a)), [255, 255, 255]);
}
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  const text = walker.currentNode.textContent.trim();
  if (!text || !node.checkVisibility() || node.closest("noscript, template, :disabled")) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(parse(style.color)), light(background(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
  if (ratio < (isLarge ? 3 : 4.5)) found.push(`${text}: ${ratio.toFixed(2)}`);
}
return found;
"""


@contextmanager
def open_browser(folder: Path) -> Iterator[WebDriver]:
    """A browser with an empty profile in this folder."""
    options = Options()
    assert CHROMIUM is not None
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()
