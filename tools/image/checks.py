"""Checks the files of an image: byte code that does not fit, files that do not belong there, missing files."""

import _imp
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 235 * 2**20
"""With the stand-ins of the bases."""

_UNCHECKED: Final = 1
"""The flags of byte code that is valid whatever the time and the size of its source (PEP 552)."""

_SHELLS: Final = ("sh", "bash", "dash", "busybox", "zsh")
_MANAGERS: Final = ("apt", "apt-get", "dpkg", "pip", "pip3", "uv")
_FOLDERS: Final = ("bin", "usr/bin", "sbin", "usr/sbin", "usr/local/bin")
_COMMANDS: Final = ("rebalancer", "kubectl-rebalance")
_INTERPRETER: Final = "usr/bin/python3"


def list_files(root: Path) -> list[Path]:
    """Return the files of a root file system, without links."""
    return [file for file in root.rglob("*") if file.is_file() and not file.is_symlink()]


def find_problems(root: Path, magic: bytes) -> Iterator[str]:
    """Yield what is wrong with the root file system of an image; `magic` begins the byte code of its Python."""
    yield from _code_problems(root, magic)
    yield from _unwanted(root)
    yield from _missing(root)
    size = sum(file.stat().st_size for file in list_files(root))
    if size > MOST_BYTES:
        yield f"the image has {size / 2**20:.0f} MiB, more than {MOST_BYTES / 2**20:.0f}"


def _code_problems(root: Path, magic: bytes) -> Iterator[str]:
    """Yield the modules that Python would compile at each start, or take from byte code of another source."""
    (standard,) = (root / "usr/lib").glob("python3.*")
    version = standard.name.removeprefix("python").replace(".", "")
    libraries = (root / "app", standard)
    for source in (file for library in libraries for file in library.rglob("*.py") if not file.is_symlink()):
        name = source.relative_to(root)
        code = source.parent / "__pycache__" / f"{source.stem}.cpython-{version}.pyc"
        if not code.exists():
            yield f"/{name} has no byte code"
            continue
        head = code.read_bytes()[:16]
        if head[:4] != magic:
            yield f"/{name}: its byte code is of another Python"
        elif int.from_bytes(head[4:8], "little") != _UNCHECKED:
            yield f"/{name}: its byte code depends on the time of its source"
        elif head[8:16] != _imp.source_hash(int.from_bytes(magic, "little"), source.read_bytes()):
            # `importlib.util.source_hash` is the same for this interpreter alone: the hash has the number in it.
            yield f"/{name}: its byte code is of another source"


def _unwanted(root: Path) -> Iterator[str]:
    """Yield shells, package managers, and what only tests and type checkers read."""
    for kind, names in (("shell", _SHELLS), ("package manager", _MANAGERS)):
        yield from (
            f"/{folder}/{name} is a {kind}"
            for folder in _FOLDERS
            for name in names
            if (root / folder / name).is_file() or (root / folder / name).is_symlink()
        )
    if (root / "app/pip").exists():
        yield "/app/pip is a package manager"
    yield from (f"/{file.relative_to(root)} is for type checkers only" for file in (root / "app").rglob("*.pyi"))
    for metadata in (root / "app").glob("*.dist-info"):
        listed = [line.split(",")[0] for line in (metadata / "RECORD").read_text().splitlines()]
        modules = [name for name in listed if name.endswith(".py") and not name.startswith("../")]
        if modules and not any((root / "app" / name).exists() for name in modules):
            yield f"/app/{metadata.name} describes a package that is not there"


def _missing(root: Path) -> Iterator[str]:
    """Yield what people, scanners and `kubectl exec` look for and do not find."""
    found = sorted((root / "app").glob("rebalancer-*.dist-info"))
    if len(found) != 1:
        yield f"/app has {len(found)} folders of metadata of rebalancer, not one"
    for metadata in found:
        if not (metadata / "licenses" / "LICENSE").exists():
            yield f"/app/{metadata.name} has no licence"
    for name in _COMMANDS:
        command = root / "usr/local/bin" / name
        if not command.exists():
            yield f"/usr/local/bin/{name} is missing"
        elif command.read_text().splitlines()[0] != f"#!/{_INTERPRETER}" or not command.stat().st_mode & 0o111:
            yield f"/usr/local/bin/{name} does not start /{_INTERPRETER}"


def find_label_problems(labels: dict[str, str]) -> Iterator[str]:
    """Yield which of the labels that the OCI names are missing, or empty."""
    names = ("title", "description", "licenses", "vendor", "url", "source", "version", "revision", "created")
    for name in (*names, "base.name", "base.digest"):
        if not labels.get(f"org.opencontainers.image.{name}"):
            yield f"the image has no label org.opencontainers.image.{name}"
