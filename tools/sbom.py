"""Writes the list of what the image contains (CycloneDX, with hashes): `python -m tools.sbom FILE`, or `make sbom`.

The lock names the packages of every Python; those for others than the image's are left out. The packages of the base
are not in it: whoever makes that image publishes their list.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from rebalancer import __version__
from tools.environment import ROOT, image_python

_PINNED: Final = re.compile(r"^(\S+==[^\\\n]+?) \\\n(?: .*\n)+", re.MULTILINE)
"""A package of the lock with its marker, and the lines with its hashes."""


def for_image(lock: str) -> str:
    """Return the part of a lock that is installed into the image: what has no marker, or one that holds there."""
    version = image_python()
    there = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
    pinned = ((entry[0], Requirement(entry[1]).marker) for entry in _PINNED.finditer(lock))
    return "".join(text for text, marker in pinned if marker is None or marker.evaluate(there))


def write(file: Path) -> None:
    """Write the list to a file."""
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-format", "JSON"]
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "-", *options]
    lock = for_image((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    document = json.loads(subprocess.run(command, input=lock, stdout=subprocess.PIPE, text=True, check=True).stdout)
    document["metadata"]["component"]["version"] = __version__  # which pyproject.toml takes from the program
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
