"""Files on the command line: read with `-` as standard input; a policy's error lists all its problems."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rebalancer.adapters.files import SnapshotFile
from rebalancer.adapters.files.profiles import find_folders
from rebalancer.cli.errors import CliError, UsageError, warn
from rebalancer.locations import ConfigMapPolicy
from rebalancer.policy import (
    Policy,
    PolicyError,
    TeamPolicy,
    default_policy,
    is_team_policy,
    load_policy,
    load_team_policy,
    policy_notes,
)
from rebalancer.policy.team_maps import VALID_POLICY_MAP

if TYPE_CHECKING:
    from rebalancer.cli.controller_state import MapPolicy

CONFIG_MAP_PREFIX: Final = "configmap:"
_LISTS: Final = re.compile(r"\.(?:json|jsonl|yaml|yml)(?:\.gz)?\Z")


def source_name(name: str) -> str:
    """Return the name of a file in messages, also of standard input (`-`)."""
    return "standard input" if name == "-" else name


def read_bytes(name: str) -> bytes:
    """Read a file, or standard input for `-`; CliError if it cannot be read."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CliError(f"{name} cannot be read: {error.strerror or error}") from None


def read_snapshot_files(names: Sequence[str]) -> list[SnapshotFile]:
    """Read files of a cluster, standard input for `-`, and likely files of a folder; CliError if one is unreadable."""
    files = []
    for name in names:
        if name != "-" and Path(name).is_dir():
            files += _read_folder(Path(name))
        else:
            files.append(SnapshotFile(source_name(name), read_bytes(name)))
    return files


def _read_folder(folder: Path) -> list[SnapshotFile]:
    """Read a folder as `kubectl cluster-info dump` writes it: each file has one list; logs are skipped."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and _LISTS.search(path.name))
    if not paths:
        raise CliError(
            f"{folder} has no file with objects (.json, .yaml, .yml, also .gz); write them there with kubectl "
            "cluster-info dump --all-namespaces --output-directory, or kubectl get … -o json"
        )
    return [SnapshotFile(str(path), read_bytes(str(path))) for path in paths]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadPolicy:
    """A policy, and where it was read."""

    policy: Policy
    location: str | None = None
    """The place, as --policy takes it; None for the shipped policy."""
    folders: tuple[Path, ...] = ()
    """The folders of a policy file, where the scheduler's configuration may be; empty for a policy elsewhere."""
    files: Mapping[str, str] | None = None
    """The files of its ConfigMap, None for a policy without a ConfigMap."""
    in_force: bool = False
    """Whether the cluster's controller acts by the policy."""
    doubt: str = ""
    """Why the controller may act by another policy, "" without a doubt."""
    looked_in: str = ""
    """The namespace in which no policy could be read, if the shipped policy is used instead."""
    missing: bool = False
    """Whether `written` has no policy."""
    written: ConfigMapPolicy | None = None
    """The ConfigMap in which the controller's policy is written; None if no cluster was asked."""

    def name(self, *, is_led: bool) -> str:
        """Name the policy; if no controller runs, say that the last one acted by it or has stored it."""
        place = self.location or "shipped"
        if self.looked_in:
            lacks = "none is" if self.missing else "no valid one can be read"
            place = f"shipped, {lacks} in namespace {self.looked_in}"
        if not self.in_force:
            return place
        if is_led:
            return f"{place}, the controller's"
        stored = place.endswith(f"/{VALID_POLICY_MAP}")
        return f"{place}, stored by the controller" if stored else f"{place}, the last controller's"


def read_policy(name: str | None, *, kubeconfig: str | None = None, context: str | None = None) -> ReadPolicy:
    """Read a policy file or that of `configmap:NAMESPACE/NAME`, or return the shipped policy for None.

    CliError lists all problems with their lines. Warnings about omissions go to standard error.
    """
    if name is None:
        return ReadPolicy(policy=default_policy())
    if name.startswith(CONFIG_MAP_PREFIX):
        policy, files = _read_from_cluster(name, kubeconfig, context)
        made = ReadPolicy(policy=policy, location=name, files=files)
    else:
        data = read_bytes(name)
        with listing_problems(name) as source:
            policy = load_policy(data, source=source)
        made = ReadPolicy(
            policy=policy, location=source, folders=(Path.cwd(),) if name == "-" else find_folders(Path(name))
        )
    warn(policy_notes(policy))
    return made


def choose_policy(name: str | None, namespace: str, *, kubeconfig: str | None, context: str | None) -> ReadPolicy:
    """Read the policy that --policy names, else the one in force in the live cluster.

    `namespace` is the controller's. See `read_policy`; if it is not certain which policy is in force, `doubt` and a
    warning say so.
    """
    if name is None:
        return _read_policy_in_force(namespace, kubeconfig, context)
    return read_policy(name, kubeconfig=kubeconfig, context=context)


def _read_policy_in_force(namespace: str, kubeconfig: str | None, context: str | None) -> ReadPolicy:
    """Read the policy by which the controller in a namespace acts; warn if that is not certain.

    The shipped policy is used if that policy cannot be read. For the local imports, see `_read_from_cluster`.
    """
    from rebalancer.adapters.kubernetes.transport import ClusterError, connect  # noqa: PLC0415
    from rebalancer.cli.controller_state import find_policy_in_force  # noqa: PLC0415
    from rebalancer.cli.refusals import unreadable  # noqa: PLC0415

    warnings: Sequence[str] = ()
    try:
        transport = connect(kubeconfig=kubeconfig, context=context)
        warnings = transport.warnings
        found = find_policy_in_force(transport, namespace)
    except ClusterError as error:
        warn(warnings)  # the command ends here; otherwise it shows the warnings while reading the cluster
        raise unreadable(error) from None
    warn(filter(None, [found.doubt]))
    if found.map_policy is None:
        made = ReadPolicy(policy=default_policy(), looked_in=namespace)
    else:
        policy, files = found.map_policy
        made = ReadPolicy(policy=policy, location=str(found.place), files=files)
    return replace(made, in_force=found.sure, doubt=found.doubt, missing=found.missing, written=found.written)


def _read_from_cluster(name: str, kubeconfig: str | None, context: str | None) -> "MapPolicy":
    """Read a policy from a ConfigMap. Imports are local, because the client takes longer to load than any file."""
    from rebalancer.adapters.kubernetes.transport import ClusterError, connect  # noqa: PLC0415
    from rebalancer.cli.controller_state import read_map_policy  # noqa: PLC0415
    from rebalancer.cli.refusals import unreadable  # noqa: PLC0415

    namespace, _, config_map = name.removeprefix(CONFIG_MAP_PREFIX).partition("/")
    if not namespace or not config_map or "/" in config_map:
        raise UsageError(f"found --policy {name}, expected configmap:NAMESPACE/NAME")
    try:
        with listing_problems(name):
            found = read_map_policy(connect(kubeconfig=kubeconfig, context=context), namespace, config_map)
    except ClusterError as error:
        remedy = "grant the verb get on this ConfigMap"
        raise CliError(f"{name}: {unreadable(error, remedy=remedy)}") from None
    except LookupError as error:
        raise CliError(f"{name}: {error.args[0]}") from None
    if found is None:
        raise CliError(f"{name}: there is no such ConfigMap")
    return found


def read_any_policy(name: str) -> Policy | TeamPolicy:
    """Read a file with a cluster policy, or with a team policy if its `kind` says so; see `read_policy`."""
    data = read_bytes(name)
    with listing_problems(name) as source:
        if is_team_policy(data):
            return load_team_policy(data, source=source)
        policy = load_policy(data, source=source)
    warn(f"{source}: {note}" for note in policy_notes(policy))
    return policy


@contextmanager
def listing_problems(name: str) -> Iterator[str]:
    """Turn a PolicyError into a CliError that names the policy's file."""
    source = source_name(name)
    try:
        yield source
    except PolicyError as error:
        number = len(error.problems) + error.unlisted
        title = f"{source} is not a valid policy, {number} problem{'s'[: number > 1]}:"
        raise CliError(title, *error.lines()) from None
