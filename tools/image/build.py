"""Builds the unmodified Dockerfile on the stand-ins of its bases, without a registry or a daemon.

    python -m tools.image.build    # as root, with buildah and podman; prints size, files and times of the image

Everything is below one folder, which is removed at the end. The results hold for the stand-ins: the real bases differ
in patch levels and layers, and BuildKit, the registry and the signatures are not involved.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.image.bases import HOME, make_bases
from tools.image.checks import list_files

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = ("buildah", "podman", "runc", "mmdebstrap")
"""The required programs, from Debian's packages of these names."""

_TIMESTAMP: Final = 1_700_000_000
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BUILD_BASE: Final = "docker.io/library/python:3.13-slim-trixie"
_RUN_BASE: Final = "gcr.io/distroless/python3-debian13:nonroot"
_SETTINGS: Final = {
    _BUILD_BASE: ("--env", f"PATH={_PATH}", "--cmd", "python3"),
    _RUN_BASE: (
        *("--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8"),
        *("--env", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"),
        *("--user", "65532", "--workingdir", f"/{HOME}", "--entrypoint", '["/usr/bin/python3.13"]'),
    ),
}
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Of the machine: the index of packages may be reached by a proxy that only the machine trusts."""

_ENGINE: Final = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
"""

AS_DEPLOYED: Final = (
    *("--network", "none", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "all"),
    *("--security-opt", "no-new-privileges", "--memory", "1g"),
)
"""How a container runs: as in the Deployment without capabilities and with nothing to write to; without a network."""


class Images:
    """A folder with images, the stand-ins of the bases among them; removed at the end of the block."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rebalancer-images-"))
        self._storage = ["--storage-driver", "overlay"]
        self._storage += ["--root", str(self._folder / "storage"), "--runroot", str(self._folder / "run")]
        self._engine = self._folder / "containers.conf"
        self._engine.write_text(_ENGINE)

    def __enter__(self) -> Self:
        for name, archive in zip((_BUILD_BASE, _RUN_BASE), make_bases(), strict=True):
            container = self.buildah("from", "--pull-never", "scratch")
            self.buildah("add", "--quiet", container, str(archive), "/")
            self.buildah("config", *_SETTINGS[name], container)
            self.buildah("commit", "--quiet", "--rm", container, name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.buildah("rm", "--all")
        shutil.rmtree(self._folder)

    def buildah(self, *command: str) -> str:
        """Run a command of buildah on this folder and return what it printed. Raises CalledProcessError, with a log."""
        return _run("buildah", *self._storage, *command)

    def build(self, name: str, *, revision: str = "", target: str = "", architecture: str = "amd64") -> None:
        """Build the Dockerfile as it is; every file has the same time, so that equal contents are equal images."""
        arguments = {"REVISION": revision} if revision else {}
        if target:
            # Only the emulated platform would set it, and nothing is emulated.
            arguments["TARGETARCH"] = architecture
        self.buildah(
            *("bud", "--isolation", "chroot", "--pull-never", "--format", "oci", "--no-cache"),
            *("--timestamp", str(_TIMESTAMP), "--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"),
            *(option for key, value in arguments.items() for option in ("--build-arg", f"{key}={value}")),
            *(("--target", target) if target else ()),
            *("--tag", name, str(ROOT)),
        )

    def digest(self, name: str) -> str:
        """Return the digest of an image."""
        return self.buildah("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", name)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of an image."""
        shown = self.buildah(
            *("inspect", "--type", "image"),
            *("--format", '{{range $key, $value := .OCIv1.Config.Labels}}{{$key}}={{$value}}{{"\\n"}}{{end}}', name),
        )
        return dict(line.split("=", 1) for line in shown.splitlines() if line)

    @contextmanager
    def files(self, name: str) -> Iterator[Path]:
        """Mount a copy of an image's root file system that may be changed."""
        container = self.buildah("from", "--pull-never", name)
        try:
            yield Path(self.buildah("mount", container))
        finally:
            self.buildah("umount", container)
            self.buildah("rm", container)

    def run(
        self, name: str, *command: str, mounts: Mapping[Path, str] | None = None, entrypoint: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a container of an image as the Deployment does, and return how it ended and what it printed."""
        shown = [f"--volume={path}:{place}:ro" for path, place in (mounts or {}).items()]
        entry = ["--entrypoint", entrypoint] if entrypoint else []
        return subprocess.run(
            ["podman", *self._storage, "run", "--rm", *AS_DEPLOYED, *shown, *entry, name, *command],
            env={"PATH": _PATH, "HOME": str(self._folder), "CONTAINERS_CONF": str(self._engine)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )


def missing_programs() -> list[str]:
    """Return what this needs and the machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, command)
        error.add_note("\n".join([*done.stdout.splitlines()[-20:], *done.stderr.splitlines()[-20:]]))
        raise error
    return done.stdout.strip()


def main() -> None:
    """Build the image and print what is to be said of it."""
    name = "rebalancer:measured"
    with Images() as images:
        began = time.monotonic()
        images.build(name)
        print(f"built in {time.monotonic() - began:.0f} s")
        with images.files(name) as root:
            files = list_files(root)
            print(f"{sum(file.stat().st_size for file in files) / 2**20:.1f} MiB in {len(files)} files")
            print(f"{sum(file.suffix == '.pyc' for file in files)} of them byte code")
        examples = {ROOT / "docs" / "examples": "/examples"}
        for command in (["--version"], ["report", "--snapshot", "/examples/zone-returned.json"]):
            times = []
            for _ in range(5):
                began = time.monotonic()
                images.run(name, *command, mounts=examples)
                times.append(time.monotonic() - began)
            print(f"{' '.join(command)}: {sorted(times)[2]:.2f} s, with the start of the container")


if __name__ == "__main__":
    main()
