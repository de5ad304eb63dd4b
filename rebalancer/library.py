"""Where the library differs from the commands: reading a snapshot, and a plan.

`rebalancer.__all__` has the public names; all others belong to the product itself.
"""

import warnings
from dataclasses import replace
from datetime import datetime

from rebalancer.adapters import files
from rebalancer.engine import Evaluation
from rebalancer.locations import own_namespace
from rebalancer.model.cluster import NEWEST, Version
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning import plan_file
from rebalancer.planning.plan import Plan


class IncompleteSnapshot(UserWarning):
    """A file lacks objects or times that an exact evaluation needs, or has objects that cannot be read."""


def read_snapshot(
    data: bytes, *, source: str = "snapshot", at: datetime | None = None, version: str | None = None
) -> Snapshot:
    """Read what `kubectl get … -o json` or `-o yaml` prints; `docs/reference/commands.md` has the whole command.

    `source` names the file in messages. `at` is when the file was written, an aware time; None: the newest time in it.
    `version` is the API server's version, such as "1.34"; None: the newest known version. Raises UnreadableSnapshot if
    the document is no list of Kubernetes objects, ValueError if the version is invalid.

    The commands print what a file lacks. Here it is a warning of category IncompleteSnapshot, which
    `warnings.simplefilter("error", IncompleteSnapshot)` turns into an exception. If a message names a flag of the
    commands, such as `--at`, use the parameter of that name.
    """
    known = NEWEST if version is None else Version.parse(version)
    snapshot, problems = files.read_snapshot(data, version=known, at=at, source=source)
    for problem in problems:
        warnings.warn(problem, IncompleteSnapshot, stacklevel=2)
    if snapshot.team_maps is None:
        return snapshot
    home = own_namespace()  # in our own namespace this ConfigMap is the cluster policy
    return replace(snapshot, team_maps=tuple(one for one in snapshot.team_maps if one.namespace != home))


def read_plan(data: bytes, evaluation: Evaluation) -> Plan:
    """Read the output of `write_plan`, given an equal evaluation; return the whole plan that was written.

    Raises ValueError if the bytes are no plan, or name a pod, group or limit that the evaluation does not have.
    """
    return plan_file.read_plan(data, evaluation.assessment, evaluation.view.snapshot)
