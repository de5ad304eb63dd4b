"""Prometheus, promtool and Alertmanager, found: on the PATH, or where `.ci/tools` unpacks Debian's packages.

Nothing is installed or started by looking. See `tools/control-plane/README.md`.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.control_plane.build import MissingPart, cache_root

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "promtool": ("promtool",),
    "prometheus": ("prometheus",),
    # Debian prefixes what would be too general a name.
    "alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "amtool": ("amtool",),
}

TEMPLATE: Final = Path("/usr/share/prometheus/alertmanager/default.tmpl")
"""Debian's Alertmanager does not start without it."""


def unpacked() -> Path:
    """Return the folder into which `.ci/tools` unpacks the packages' programs."""
    return cache_root() / "debian" / "usr" / "bin"


def packaged(program: str) -> Path:
    """Return the path of one of `NAMES`. Raises MissingPart."""
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), str(unpacked())))
    for name in NAMES[program]:
        path = shutil.which(name, path=folders)
        if path and (name != "prometheus-alertmanager" or TEMPLATE.exists()):
            return Path(path).resolve()
    message = f"no {program} here; install Debian's prometheus and prometheus-alertmanager, or run .ci/tools"
    raise MissingPart(message)


def or_skip(missing: MissingPart) -> NoReturn:
    """Skip the test without its program; in CI a missing program is an error."""
    if os.environ.get("CI") == "true":
        raise missing
    pytest.skip(str(missing))


def run(*command: str | Path) -> str:
    """Run a checker and return what it says; it must be content."""
    done = subprocess.run(
        [str(argument) for argument in command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return promtool, or skip the test."""
    try:
        return packaged("promtool")
    except MissingPart as missing:
        or_skip(missing)
