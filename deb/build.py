"""Build the Debian package of macontrol for this machine's release and architecture.

`make deb` runs this with Debian's own Python. The package is what `make install` installs, with
Debian's paths, plus the manual page, shell completion and the documents. Its program is a virtual
environment in /opt/macontrol, because Debian's numpy, pydantic and rich are older than macontrol
needs. The environment works with one version of Python only, so the package depends on it.

usage: build.py OUT
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEB = ROOT / "deb"
PREFIX = "opt/macontrol"
DOC = "usr/share/doc/macontrol"
PATHS = {
    "BINDIR": "/usr/bin",
    "UNITDIR": "/usr/lib/systemd/system",
    "UDEVDIR": "/usr/lib/udev/rules.d",
    "DOCDIR": f"/{DOC}/systemd",
}
"""Where `make install` puts the parts of a Debian package."""
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
COMPLETION = ("-m", "macontrol", "completion")
PYTHON = f"python3.{sys.version_info.minor}"


def main(out: Path) -> None:
    for tool, name in {"make": "make", "dpkg-shlibdeps": "dpkg-dev", "objdump": "binutils"}.items():
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing.\nFix: sudo apt install {name}")
    with tempfile.TemporaryDirectory(prefix="macontrol-deb-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        words = [f"{name}={path}" for name, path in PATHS.items()]
        words += [f"DESTDIR={tree}", f"PYTHON=/usr/bin/{PYTHON}"]
        subprocess.run(["make", "-C", ROOT, "--no-print-directory", "install", *words], check=True)
        add_documents(tree)
        print(f"Written: {package(tree, out, shared_libraries(tree))}")


def add_documents(tree: Path) -> None:
    """Add what is made from the installed program and from the documents of the project."""
    python = tree / PREFIX / "bin/python"
    date = released(version_of(tree)).date().isoformat()
    doc = tree / DOC
    pages = {
        "usr/share/man/man1/macontrol.1": [str(DEB / "man_page.py"), date],
        "usr/share/bash-completion/completions/macontrol": [*COMPLETION, "bash"],
        "usr/share/zsh/vendor-completions/_macontrol": [*COMPLETION, "zsh"],
        f"{DOC}/copyright": [str(DEB / "copyright.py"), str(ROOT / "LICENSE")],
    }
    for place, words in pages.items():
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_bytes(subprocess.check_output([python, "-B", *words], cwd=tree))
    compress(tree / "usr/share/man/man1/macontrol.1")
    shutil.copy(ROOT / "README.md", doc)
    shutil.copy(ROOT / "CHANGELOG.md", doc / "changelog")
    compress(doc / "changelog")
    ignored = shutil.ignore_patterns("*.py", "__pycache__", "site", "build", "*.egg-info")
    shutil.copytree(ROOT / "docs", doc / "docs", ignore=ignored)
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "examples", doc / "examples", ignore=ignored)


def package(tree: Path, out: Path, libraries: str) -> Path:
    """Write the package of a tree into a folder; the libraries are what its programs link to."""
    version = version_of(tree)
    debian_version = f"{version}-1+py3{sys.version_info.minor}"
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    maintainer = "{} <{}>".format(
        os.environ.get("DEBFULLNAME", "macontrol contributors"),
        os.environ.get("DEBEMAIL", "nobody@macontrol.invalid"),
    )
    entry = (DEB / "changelog").read_text("utf-8")
    write_compressed(
        tree / DOC / "changelog.Debian",
        f"macontrol ({debian_version}) unstable; urgency=medium\n\n{entry}\n"
        f" -- {maintainer}  {format_datetime(released(version))}\n",
    )
    overrides = tree / "usr/share/lintian/overrides/macontrol"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DEB / "lintian-overrides", overrides)
    # The bytecode is compiled at installation, as in Debian's own packages.
    for folder in [*tree.rglob("__pycache__")]:
        shutil.rmtree(folder)
    for library in tree.rglob("*.so*"):
        library.chmod(0o644)
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", tree], check=True)

    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    control = (
        (DEB / "control")
        .read_text("utf-8")
        .format(
            version=debian_version,
            architecture=architecture,
            maintainer=maintainer,
            size=sum(path.stat().st_size for path in files) // 1024,
            depends=", ".join(filter(None, ["python3", PYTHON, libraries])),
        )
    )
    sums = [f"{hashlib.md5(f.read_bytes()).hexdigest()}  {f.relative_to(tree)}\n" for f in files]
    settings = [f"/{f.relative_to(tree)}\n" for f in files if tree / "etc" in f.parents]
    (tree / "DEBIAN").mkdir()
    for name, text in {
        "control": control,
        "conffiles": "".join(settings),
        "md5sums": "".join(line for line in sums if not line[34:].startswith("etc/")),
    }.items():
        (tree / "DEBIAN" / name).write_text(text, "utf-8")
    for name in SCRIPTS:
        shutil.copy(DEB / name, tree / "DEBIAN")
        (tree / "DEBIAN" / name).chmod(0o755)
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"macontrol_{debian_version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, target], check=True)
    return target


def version_of(tree: Path) -> str:
    code = "import macontrol; print(macontrol.__version__)"
    python = tree / PREFIX / "bin/python"
    return subprocess.check_output([python, "-BPc", code], cwd=tree, text=True).strip()


def released(version: str) -> datetime:
    """Return the date of a release, from the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\] - (\S+)$", text, re.MULTILINE)
    if found is None:
        sys.exit(
            f"CHANGELOG.md has no release {version}, which src/macontrol/__init__.py names.\n"
            "Fix: add its heading, as docs/release.md describes."
        )
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


def shared_libraries(tree: Path) -> str:
    """Return the Debian packages of the libraries that the extension modules link to."""
    modules = [path for path in (tree / PREFIX / "lib").rglob("*.so*") if path.is_file()]
    bundled = {str(path.parent) for path in modules if path.parent.name.endswith(".libs")}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "debian").mkdir()
        (Path(folder) / "debian/control").write_text(
            "Source: macontrol\n\nPackage: macontrol\nArchitecture: any\n"
        )
        command = ["dpkg-shlibdeps", "-O", "--ignore-missing-info", "--warnings=0"]
        command += [f"-l{place}" for place in sorted(bundled)]
        answer = subprocess.check_output([*command, *modules], cwd=folder, text=True)
    return answer.strip().removeprefix("shlibs:Depends=")


def compress(path: Path) -> None:
    write_compressed(path, path.read_text("utf-8"))
    path.unlink()


def write_compressed(path: Path, text: str) -> None:
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} failed (exit code {error.returncode}).")
