"""Writes the list of what the image contains (CycloneDX, with hashes): `make sbom`.

    python -m tools.sbom FILE        # writes it
    python -m tools.sbom FILE APP    # and exits 1 if the folder /app of an image has other packages

The lock names the packages of every Python; packages for a Python other than the image's are left out. So are the
packages of the base image: its publisher lists them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

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


def find_differences(file: Path, app: Path) -> Iterator[str]:
    """Yield each package that is only in the list, or only in the folder."""
    document = json.loads(file.read_text(encoding="utf-8"))
    listed = {
        f"{entry['name']} {entry['version']}" for entry in (document["metadata"]["component"], *document["components"])
    }
    found = {f"{canonicalize_name(one.metadata['Name'])} {one.version}" for one in distributions(path=[str(app)])}
    yield from (f"{name} is in the list and not in the image" for name in sorted(listed - found))
    yield from (f"{name} is in the image and not in the list" for name in sorted(found - listed))


def main(file: str, app: str | None = None) -> int:
    """Write the list, and compare it if there is something to compare with."""
    write(Path(file))
    differences = list(find_differences(Path(file), Path(app))) if app is not None else []
    for difference in differences:
        print(difference, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
