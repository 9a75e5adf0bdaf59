"""Print the copyright file of the Debian package; `make deb` runs this with its environment.

usage: copyright.py LICENSE
"""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path


def copyright_file(license_text: str) -> str:
    lines = [license_text.strip(), "", "The environment in /opt/macontrol contains these packages."]
    lines += ["Each has its licence in its folder *.dist-info below /opt/macontrol/lib:", ""]
    found = {each.name: each for each in distributions() if each.name != "macontrol"}
    for name in sorted(found, key=str.lower):
        metadata = found[name].metadata
        terms = "".join(metadata.get_all("License-Expression") or metadata.get_all("License") or [])
        classifiers = metadata.get_all("Classifier") or []
        named = [each.split(" :: ")[-1] for each in classifiers if each.startswith("License ::")]
        # Older packages have the whole text of the licence in this field.
        short = terms if terms and "\n" not in terms else ", ".join(named) or "see its folder"
        lines.append(f"  {name} {found[name].version}: {short}")
    lines += ["", "The text of Apache-2.0 is also in /usr/share/common-licenses/Apache-2.0."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(copyright_file(Path(sys.argv[1]).read_text("utf-8")), end="")
