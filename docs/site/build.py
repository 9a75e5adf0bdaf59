"""Build the documentation site: gather the pages, generate the references, run MkDocs strictly.

`make site` runs this. Pages outside docs/ get a place in the site, and links between pages follow.
A link to a file that is not in the site becomes plain text.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import MkDocsException

sys.path.insert(0, str(Path(__file__).parent))
from references import PAGES

ROOT = Path(__file__).parents[2]
OTHERS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "systemd/README.md": "service.md",
    "docs/decisions/README.md": "decisions/index.md",
    "docs/site/site.css": "site.css",
}
"""Where pages go that do not keep their place under docs/."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def sources() -> dict[Path, str]:
    """The files of the site, and the place of each."""
    places = {ROOT / source: place for source, place in OTHERS.items()}
    for kind in ("**/*.md", "pictures/*.png"):
        for path in sorted((ROOT / "docs").glob(kind)):
            places.setdefault(path, path.relative_to(ROOT / "docs").as_posix())
    return places


def gather(folder: Path) -> None:
    """Write all pages and pictures into a folder, with links between them."""
    places = sources()
    for source, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(_relinked(source, place, places), "utf-8")
        else:
            shutil.copyfile(source, target)
    for place, page in PAGES.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), "utf-8")


def _relinked(source: Path, place: str, places: dict[Path, str]) -> str:
    """The text of a page with its links as they are in the site."""

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups(default="")
        if not target or "://" in target:
            return found[0]
        path = (source.parent / target).resolve()
        if path.is_dir():
            path /= "README.md"
        if path not in places:
            return text
        where = os.path.relpath(places[path], Path(place).parent)
        return f"{mark}[{text}]({where}{anchor})"

    parts = _CODE.split(source.read_text("utf-8"))
    parts[::2] = [_LINK.sub(link, prose) for prose in parts[::2]]
    return "".join(parts)


def complete(nav: list[Any], folder: Path) -> list[Any]:
    """The navigation with the pages that it does not name: decisions, and a group "More"."""
    named = set(re.findall(r"[\w/-]+\.md", str(nav)))
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob("**/*.md"))
    rest = [page for page in pages if page not in named]
    decisions = [page for page in rest if page.startswith("decisions/")]
    decisions.sort(key=lambda page: not page.endswith("index.md"))
    more = [page for page in rest if page not in decisions]
    return [*nav, *([{"More": more}] if more else []), {"Decisions": decisions}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "site")
    out = parser.parse_args().out.resolve()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with tempfile.TemporaryDirectory(prefix="macontrol-site-") as folder:
        gather(Path(folder))
        config = load_config(
            str(ROOT / "mkdocs.yml"), docs_dir=folder, site_dir=str(out), strict=True
        )
        config.nav = complete(config.nav or [], Path(folder))
        try:
            build(config)
        except MkDocsException as error:
            print(f"the site was not built: {error}", file=sys.stderr)
            return 1
    print(f"Written: {out}/index.html")
    print(f"Its search needs a server: python3 -m http.server -d '{out}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
