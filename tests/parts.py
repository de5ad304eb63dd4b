"""What the tests start beside Python's packages: whether this machine has it, and which tests are skipped without it.

    python -m tests.parts unit cluster image

prints a table of what these lanes start. It is shown before the first test, so that nobody waits for minutes to learn
what is missing. Exits 1 with CI=true where something is: every test runs there.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from tests.cluster.installed import find_obstacle
from tests.control_plane.build import ACTIONLINT, HELM, PINT, PROGRAMS, MissingPart, Program, found
from tests.monitoring.programs import NAMES, packaged
from tools.image.build import missing_programs

UNIT, CLUSTER, IMAGE = LANES = ("unit", "cluster", "image")
TOOLS: Final = "bash .ci/tools"
BUILD: Final = "make control-plane, which needs Go"
SERVERS = [program for program in PROGRAMS if program.name != "kubectl"]
CLIENTS = [HELM, *(program for program in PROGRAMS if program.name == "kubectl")]


class Here(StrEnum):
    """Whether a part is on this machine."""

    YES = "yes"
    NOT_BUILT = "not yet"
    NO = "no"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that tests start or need, in some of the lanes."""

    name: str
    lanes: tuple[str, ...]
    here: Callable[[], Here]
    without: str
    """The tests that are skipped without it."""
    remedy: str

    def shown_where(self, here: Here) -> tuple[str, str]:
        """Return what is skipped and the remedy, where it is not here."""
        return ("", "") if here == Here.YES else (self.without, self.remedy)


def _if(condition: Callable[[], object]) -> Callable[[], Here]:
    return lambda: Here.YES if condition() else Here.NO


def _on_path(*names: str) -> Callable[[], Here]:
    return _if(lambda: all(map(shutil.which, names)))


def _are_found(*finders: Callable[[], Path]) -> bool:
    try:
        for find in finders:
            find()
    except MissingPart:
        return False
    return True


def _packaged(*names: str) -> Callable[[], Here]:
    return _if(lambda: _are_found(*(partial(packaged, name) for name in names)))


def _built(*programs: Program) -> Callable[[], Here]:
    def here() -> Here:
        if _are_found(*(partial(found, program) for program in programs)):
            return Here.YES
        return Here.NOT_BUILT if shutil.which("go") else Here.NO

    return here


PARTS: Final = (
    Part(
        name="kube-apiserver, etcd, kwok, …",
        lanes=(CLUSTER,),
        here=_built(*SERVERS),
        without="all tests on a real control plane",
        remedy=BUILD,
    ),
    Part(
        name="helm, kubectl",
        lanes=(UNIT, CLUSTER),
        here=_built(*CLIENTS),
        without="the chart and the kustomizations, the dry run of a release",
        remedy=BUILD,
    ),
    Part(name="pint", lanes=(UNIT,), here=_built(PINT), without="pint over the alert rules", remedy=BUILD),
    Part(
        name="actionlint",
        lanes=(UNIT,),
        here=_built(ACTIONLINT),
        without="actionlint over the workflows and the action, SARIF against its schema",
        remedy=BUILD,
    ),
    Part(
        name="promtool",
        lanes=(UNIT,),
        here=_packaged("promtool"),
        without="alert rules and dashboard on samples",
        remedy=TOOLS,
    ),
    Part(
        name="prometheus, alertmanager, amtool",
        lanes=(CLUSTER,),
        here=_packaged(*NAMES),
        without="alerts and guards on real servers",
        remedy=TOOLS,
    ),
    Part(
        name="openssl",
        lanes=(UNIT,),
        here=_on_path("openssl"),
        without="certificates of an API server",
        remedy="apt-get install openssl",
    ),
    Part(
        name="tmux",
        lanes=(UNIT,),
        here=_on_path("tmux"),
        without="recordings of a terminal",
        remedy=TOOLS,
    ),
    Part(
        name="zsh, fish",
        lanes=(UNIT,),
        here=_on_path("zsh", "fish"),
        without="completion in these shells",
        remedy=TOOLS,
    ),
    Part(
        name="git, jq",
        lanes=(UNIT,),
        here=_on_path("git", "jq"),
        without="the dry run of a release",
        remedy=TOOLS,
    ),
    Part(
        name="chromium",
        lanes=(UNIT, CLUSTER),
        here=_on_path("chromium"),
        without="the status page and the site's search in a browser",
        remedy=TOOLS,
    ),
    Part(
        name="root, and mount namespaces",
        lanes=(CLUSTER,),
        here=_if(lambda: not find_obstacle()),
        without="the rendered Deployment as a process",
        remedy="run as root",
    ),
    Part(
        name="root, buildah, podman, runc, mmdebstrap",
        lanes=(IMAGE,),
        here=_if(lambda: os.geteuid() == 0 and not missing_programs()),
        without="all tests of the image",
        remedy=f"run as root; {TOOLS}",
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if something is missing in CI."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lanes", nargs="+", choices=LANES)
    lanes = set(parser.parse_args(arguments).lanes)
    wanted = [part for part in PARTS if lanes & set(part.lanes)]
    states = [(part, part.here()) for part in wanted]
    rows = [
        ("HERE", "PART", "SKIPPED", "REMEDY"),
        *((state, part.name, *part.shown_where(state)) for part, state in states),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if any(state == Here.NO for _, state in states) and os.environ.get("CI") == "true":
        print("CI=true: every test must run; install what this machine lacks.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
