"""Writes the list of what the image contains (CycloneDX, with hashes): `python -m tools.sbom FILE`, or `make sbom`.

The lock names the packages of every Python; those for others than the image's are left out. The packages of the base
are not in it: whoever makes that image publishes their list.
"""

import json
import subprocess
import sys
from pathlib import Path

from rebalancer import __version__
from tools.environment import ROOT, locked


def write(file: Path) -> None:
    """Write the list to a file."""
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-format", "JSON"]
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "-", *options]
    lock = "".join(one.text for one in locked() if one.is_for_image)
    document = json.loads(subprocess.run(command, input=lock, stdout=subprocess.PIPE, text=True, check=True).stdout)
    document["metadata"]["component"]["version"] = __version__  # which pyproject.toml takes from the program
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
