"""Stand-ins for the Dockerfile's two bases, made from the Debian 13 packages of the machine's own mirror.

    python -m tools.image.bases    # as root, with mmdebstrap; about 90 seconds, once

The real bases come from registries. The first stand-in is Debian with its own Python 3.13 and pip, where the real base
has a Python built from source. The second has the packages in the distroless project's build files for python3-debian13
(github.com/GoogleContainerTools/distroless), unpacked and not installed, as there. So its files differ from the real
base only in patch levels and the division into layers.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.control_plane.build import cache_root

CACHE: Final = cache_root() / "image"
"""Where the archives of the stand-ins are kept."""

SUITE: Final = "trixie"

HOME: Final = "home/nonroot"
"""Below the root of the base."""

_BUILD_PACKAGES: Final = ("ca-certificates", "netbase", "tzdata", "python3", "python3-pip", "python-is-python3")

# base-files first: it brings the links of the merged /usr, into which all others are unpacked.
_RUN_PACKAGES: Final = (
    "base-files",
    *("netbase", "tzdata", "tzdata-legacy", "media-types", "ca-certificates", "libc-bin"),
    *("libc6", "libssl3t64", "libzstd1", "zlib1g", "libgomp1", "libstdc++6", "libgcc-s1", "gcc-14-base"),
    *("libbz2-1.0", "libdb5.3t64", "libexpat1", "liblzma5", "libsqlite3-0", "libuuid1", "libncursesw6", "libtinfo6"),
    *("libcom-err2", "libcrypt1", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0"),
    *("libnsl2", "libreadline8t64", "libtirpc3t64", "libffi8"),
    *("libpython3.13-minimal", "libpython3.13-stdlib", "python3.13-minimal", "python3.13-venv"),
)

_ACCOUNTS: Final = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
        f"nonroot:x:65532:65532:nonroot:/{HOME}:/sbin/nologin\n"
    ),
    "etc/group": "root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


class NoMirrorError(Exception):
    """The machine's package manager names no mirror of Debian."""


def find_mirror() -> str:
    """Return the address of the machine's own mirror of Debian's packages. Raises NoMirrorError."""
    lines = _output("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian")
    mirrors = sorted({line for line in lines.splitlines() if line.rstrip("/").endswith("/debian")})
    if not mirrors:
        raise NoMirrorError("apt-get names no mirror of Debian: run apt-get update, or look at /etc/apt/sources.list")
    return mirrors[0]


def make_bases() -> tuple[Path, Path]:
    """Make the archives of the two root file systems, where they are not there yet, and return them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    archives = CACHE / "build.tar", CACHE / "base.tar"
    for archive, make in zip(archives, (_make_build, _make_base), strict=True):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                made = Path(folder) / archive.name
                make(made, Path(folder))
                made.rename(archive)  # at once: nobody finds half of it
    return archives


def _make_build(archive: Path, _: Path) -> None:
    """Install Debian with its Python and pip, without documents."""
    options = ["--quiet", "--mode=root", "--variant=apt", f"--include={','.join(_BUILD_PACKAGES)}"]
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    _run("mmdebstrap", *options, *left_out, SUITE, str(archive), find_mirror())


def _make_base(archive: Path, folder: Path) -> None:
    """Unpack the packages of the base, and write the few files that its build files write."""
    packages, root = _download(folder), folder / "root"
    known = root / "var/lib/dpkg/status.d"
    for name, package in packages.items():
        _run("dpkg-deb", "-x", str(package), str(root))
        known.mkdir(parents=True, exist_ok=True)
        (known / name).write_text(_output("dpkg-deb", "-f", str(package)))
    for name, text in _ACCOUNTS.items():
        (root / name).write_text(text)
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    together = root / "etc/ssl/certs/ca-certificates.crt"
    together.parent.mkdir(parents=True, exist_ok=True)
    together.write_text("".join(one.read_text() for one in certificates))
    shutil.rmtree(root / "usr/share/ca-certificates")
    for name, mode, owner in (("root", 0o700, 0), (HOME, 0o700, 65532), ("tmp", 0o1777, 0)):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
        os.chown(root / name, owner, owner)
    for name in ("python3", "python"):
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/bin" / name).symlink_to("python3.13")
    for name in ("sh", "bash", "dash"):
        assert not (root / "usr/bin" / name).exists(), f"the base has a shell, {name}"
    _run("ldconfig", "-r", str(root))
    _run("tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), ".")


def _download(folder: Path) -> dict[str, Path]:
    """Download the packages of the base without touching the package manager of the machine; return them by name."""
    state, packages, mirror = folder / "apt", folder / "packages", find_mirror()
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    packages.mkdir()
    (state / "status").touch()
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    suites = (SUITE, f"{SUITE}-updates")
    (state / "sources.list").write_text("".join(f"deb {signed} {mirror} {suite} main\n" for suite in suites))
    settings = {
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": "-",
        "Acquire::Languages": "none",
        "APT::Architecture": _output("dpkg", "--print-architecture").strip(),
        "APT::Sandbox::User": "root",
    }
    options = [option for name, value in settings.items() for option in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "update", "-qq")
    _run("apt-get", *options, "download", "-qq", *_RUN_PACKAGES, folder=packages)
    return {name: next(packages.glob(f"{name}_*.deb")) for name in _RUN_PACKAGES}


def _run(*command: str, folder: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Make what is missing and print where it is."""
    for archive in make_bases():
        print(f"{archive}: {archive.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
