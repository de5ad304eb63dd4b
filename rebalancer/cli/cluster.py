"""A live cluster for read-only commands: its objects, its team policies, its controller.

This module is imported only for a live cluster, because loading the client takes longer than planning most files.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rebalancer.adapters.kubernetes.configmaps import read_config_map
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, connect
from rebalancer.cli.acting import Acting
from rebalancer.cli.controller_state import read_acting, warn_of_clock
from rebalancer.cli.errors import CliError, warn
from rebalancer.cli.options import ReadOptions
from rebalancer.cli.refusals import unreadable
from rebalancer.model.cluster import ConfigMap, describe_unmodelled
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode
from rebalancer.policy.team_maps import POLICY_MAP


class Cluster:
    """The cluster that the flags name; methods raise CliError."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        try:
            self._transport = connect(kubeconfig=options.kubeconfig, context=options.context)
        except ClusterError as error:
            raise CliError(f"{error}, or --snapshot FILE") from None
        warn(self._transport.warnings)

    def read_snapshot(self) -> tuple[Snapshot, tuple[str, ...]]:
        """List the cluster once; return the snapshot, and what could not be read."""
        options = self._options
        try:
            snapshot = read_once(self._transport, datetime.now(UTC), options.policy.eligibility.foreign_owners)
        except ClusterError as error:
            raise unreadable(error) from None
        warnings = tuple(filter(None, [describe_unmodelled(snapshot.version)]))
        warnings += tuple(f"left out: {fault}" for fault in snapshot.faults)
        if snapshot.unknown:
            warnings += (f"not allowed to list {', '.join(sorted(snapshot.unknown))}",)
        warnings += tuple(f"owners of kind {kind} are not read: {why}" for kind, why in snapshot.unread_owners.items())
        return snapshot, warnings

    def read_team_maps(self, namespaces: Iterable[str]) -> Iterator[ConfigMap]:
        """Yield the existing ConfigMaps of team policies; warn about unreadable ones."""
        for namespace in namespaces:
            try:
                config_map = read_config_map(self._transport, namespace, POLICY_MAP)
            except RequestRefused as error:
                warn([f"the team policy of {namespace} is not evaluated: {unreadable(error)}"])
            except ClusterError as error:
                raise unreadable(error) from None
            else:
                if config_map is not None:
                    yield config_map

    def read_acting(self, mode: Mode) -> Acting:
        """Return what the cluster's controller does."""
        warn_of_clock(self._transport)
        return read_acting(self._transport, self._options.controller_namespace, mode)
