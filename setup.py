"""What pyproject.toml cannot express: a check of the checkout, and the README of a package index.

A package index shows the README without its repository, so links and pictures need an address. It
is `repository` of `[tool.macontrol]` in pyproject.toml. Without one, links become plain text, and a
picture becomes its place in the source package.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ROOMS = ("config", "controller", "hal", "sim")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+://)([^)#\s]+)(#[^)\s]*)?\)")


def check_rooms() -> None:
    """Refuse a checkout without symlinks, whose package would lack most of the program."""
    missing = [
        f"src/macontrol/{name}" for name in ROOMS if not (ROOT / "src/macontrol" / name).is_dir()
    ]
    if missing:
        sys.exit(
            f"macontrol cannot be built: {', '.join(missing)} should be links to folders, and git "
            "has written them as text files; run `git config core.symlinks true && git checkout -- "
            "src/macontrol` on a file system with symlinks, or install from the source package."
        )


def index_readme(text: str, repository: str, tag: str) -> str:
    """Return the README with the links of a repository, or without links."""

    def link(found: re.Match[str]) -> str:
        mark, words, path, anchor = found.groups(default="")
        if repository:
            return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{tag}/{path}{anchor})"
        return f"(Picture: {path} in the source package.)" if mark else words

    return _LINK.sub(link, text)


def urls(repository: str, tag: str) -> dict[str, str]:
    """Return the addresses of the project, if it has a public repository."""
    if not repository:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/start-here.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def build() -> None:
    from setuptools import setup  # not for those who only use the functions: it changes imports

    check_rooms()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    repository = project["tool"]["macontrol"]["repository"].rstrip("/")
    package = (ROOT / "src/macontrol/__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    assert version is not None
    tag = f"v{version[1]}"
    readme = (ROOT / "README.md").read_text("utf-8")
    setup(
        long_description=index_readme(readme, repository, tag),
        long_description_content_type="text/markdown",
        project_urls=urls(repository, tag),
    )


if __name__ == "__main__":
    build()
