"""Makes the virtual environment of kubectl's plugin, once: `python3 install.py ENVIRONMENT`, beside wheel and lock.

Of several calls at once one installs, and the others wait for it. What a call that was ended has left is removed, and
so are the environments of other versions.
"""

import fcntl
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent


def works(environment: Path) -> bool:
    """Return whether the program is there with a Python that starts: one that is upgraded leaves a link to nowhere."""
    if not (environment / "bin" / "kubectl-rebalance").exists():
        return False
    try:
        command = [str(environment / "bin" / "python"), "-c", "import rebalancer"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def install(environment: Path) -> None:
    """Install the locked packages by hash, and the wheel; raises CalledProcessError where pip fails."""
    python = str(environment / "bin" / "python")
    venv.create(environment, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    lock = ["--require-hashes", "--only-binary=:all:", "--requirement", str(HERE / "requirements.lock")]
    subprocess.run([*pip, *lock], check=True)
    (wheel,) = HERE.glob("rebalancer-*-py3-none-any.whl")
    subprocess.run([*pip, "--no-index", str(wheel)], check=True)


def main(environment: Path) -> str:
    """Return what went wrong, "" for nothing."""
    environment.parent.mkdir(parents=True, exist_ok=True)
    with (environment.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # which the kernel gives up for whoever is killed
        if works(environment):
            return ""
        print(f"kubectl rebalance: installing rebalancer {environment.name} into {environment}, once", file=sys.stderr)
        for other in environment.parent.iterdir():
            if other.is_dir():
                shutil.rmtree(other)
        try:
            install(environment)
        except BaseException as error:
            shutil.rmtree(environment, ignore_errors=True)
            if isinstance(error, subprocess.CalledProcessError | OSError):
                return (
                    f"error: kubectl rebalance could not be installed, for which it needs an index of packages: {error}"
                )
            raise
    return ""


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])) or 0)
    except KeyboardInterrupt:
        sys.exit(130)
