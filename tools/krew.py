"""The archive and the manifest of kubectl's plugin, for krew.

    python -m tools.krew FOLDER [ADDRESS]    # writes rebalance.tar.gz, and rebalance.yaml with its ADDRESS

The archive has the wheel, the lock, the licence and a script that installs both once into a virtual environment. Equal
files give an equal archive: its sum is in the manifest.
"""

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from rebalancer import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
ARCHIVE: Final = "rebalance.tar.gz"
MANIFEST: Final = "rebalance.yaml"
PLATFORMS: Final = tuple((system, machine) for system in ("linux", "darwin") for machine in ("amd64", "arm64"))
_ADDRESS: Final = f"https://rebalancer.dev/releases/v{__version__}/{ARCHIVE}"


def write_archive(folder: Path) -> str:
    """Write the archive into a folder and return its SHA-256 in hexadecimal digits."""
    with tempfile.TemporaryDirectory() as name:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", name, str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = Path(name).glob("*.whl")
        plugin = (ROOT / "deploy/krew/kubectl-rebalance", ROOT / "deploy/krew/install.py")
        files = [ROOT / "LICENSE", *plugin, wheel, ROOT / "requirements.lock"]
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for file in files:
                entry = tarfile.TarInfo(file.name)
                entry.size, entry.mode = file.stat().st_size, 0o755 if file.stat().st_mode & 0o100 else 0o644
                archive.addfile(entry, io.BytesIO(file.read_bytes()))
    packed = gzip.compress(data.getvalue(), mtime=0)
    (folder / ARCHIVE).write_bytes(packed)
    return hashlib.sha256(packed).hexdigest()


def manifest(digest: str, address: str = _ADDRESS) -> dict[str, Any]:
    """Return the manifest of krew's index for an archive."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rebalance"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": "https://rebalancer.dev",
            "shortDescription": "Show and repair skewed topology spread",
            "description": (
                "Reports where pods violate their topology spread constraints, as kube-scheduler counts it,\n"
                "plans the fewest evictions that repair it and proves that number. Reading changes nothing\n"
                "in the cluster.\n"
            ),
            "caveats": (
                "It needs Python 3.11 or newer with venv; the first call installs its dependencies, 0.3 GB, into\n"
                "~/.local/share/kubectl-rebalance. Delete that folder when you uninstall the plugin.\n"
            ),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": machine}},
                    "uri": address,
                    "sha256": digest,
                    "bin": "kubectl-rebalance",
                }
                for system, machine in PLATFORMS
            ],
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(prog="python -m tools.krew")
    parser.add_argument("folder", type=Path)
    parser.add_argument("address", nargs="?", default=_ADDRESS)
    args = parser.parse_args(arguments)
    args.folder.mkdir(parents=True, exist_ok=True)
    document = manifest(write_archive(args.folder), args.address)
    (args.folder / MANIFEST).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
