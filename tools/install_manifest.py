"""Write `deploy/install.yaml`: everything of deploy/base in one file, for `kubectl apply -f`.

    python -m tools.install_manifest

It is what `kubectl kustomize deploy/base` prints, with the kubectl that the tests build.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.control_plane.build import PROGRAMS, programs

ROOT: Final = Path(__file__).resolve().parents[1]
FILE: Final = ROOT / "deploy" / "install.yaml"
COMMAND: Final = "make install-manifest"
_HEAD: Final = f"# deploy/base in one file, made by `{COMMAND}`; do not edit. It observes, and has no right to evict.\n"


def manifest_text() -> str:
    """Return what the file should hold; raises MissingPart where kubectl cannot be built."""
    kubectl = programs([program for program in PROGRAMS if program.name == "kubectl"])["kubectl"]
    done = subprocess.run([kubectl, "kustomize", "deploy/base"], cwd=ROOT, capture_output=True, text=True, check=True)
    return _HEAD + done.stdout


def main() -> int:
    """Write the file."""
    FILE.write_text(manifest_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
