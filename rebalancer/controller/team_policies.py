"""The team policies: the ConfigMap `rebalancer-policy` of each namespace that the cluster policy lists, read in turn.

They are read every ten seconds, one after the other, instead of watched: five hundred watches would be as many threads
and connections, and a right to `get` one object is enough. The policy or refusal of one namespace affects no other.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused
from rebalancer.controller.polling import PollingThread
from rebalancer.controller.state import LoopEvent, TeamPoliciesRead
from rebalancer.model.cluster import ConfigMap
from rebalancer.policy import TeamReading
from rebalancer.policy.merging import MOST_TEAMS
from rebalancer.policy.team_maps import POLICY_MAP, read_team_policy

POLL_SECONDS: Final = 10.0
"""The time from one pass over all namespaces to the next."""

PAUSE_SECONDS: Final = 0.05
"""The time between two requests of a pass, for at most twenty requests a second."""

RETRY_SECONDS: Final = 60.0
"""How long a namespace with a forbidden ConfigMap is skipped; without an answer, at most this long."""

_MOST_UNANSWERED: Final = 3
"""Requests of a pass that may fail without a clear answer."""

_NO_RIGHT: Final = frozenset({401, 403})
_NOT_READ: Final = TeamReading(policy=None, problem="not read yet")

_log = structlog.get_logger("rebalancer.policy")


class TeamPolicyReader(PollingThread):
    """Reads all team policies in a thread of its own, and tells the loop when one has changed.

    `list_namespaces` names the namespaces to read, sorted; `read` returns the ConfigMap of one, None where there is
    none, or raises ClusterError.
    """

    def __init__(
        self,
        *,
        list_namespaces: Callable[[], Iterable[str]],
        read: Callable[[str], ConfigMap | None],
        tell: Callable[[LoopEvent], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_namespaces = list_namespaces
        self._read = read
        self._tell = tell
        self._clock = clock
        self._readings: Mapping[str, TeamReading] = {}
        self._config_maps: dict[str, ConfigMap | None] = {}
        """The last ConfigMap by namespace, because an unchanged text is not parsed again."""
        self._retry: dict[str, float] = {}
        """By namespace, until when it is skipped."""
        self._failures: dict[str, int] = {}
        """By namespace, the requests in a row without a clear answer."""
        self._unanswered = 0
        self._next = ""
        """The first namespace of the next pass: the first that the last pass did not reach."""
        super().__init__("team-policies", POLL_SECONDS, partial(self.poll, pause=PAUSE_SECONDS))

    def poll(self, *, pause: float = 0.0, ended: Callable[[], bool] = lambda: False) -> None:
        """Read the policies of all namespaces once, unless `ended` says so before, and tell the loop about a change.

        Namespaces beyond `MOST_TEAMS` are not read, and nothing is evicted in them, nor where the first read fails. A
        server that repeatedly gives no answer ends the pass.
        """
        listed = list(self._list_namespaces())
        names = listed[:MOST_TEAMS]
        readings = {namespace: self._readings.get(namespace, _NOT_READ) for namespace in names}
        self._unanswered = 0
        first, self._next = self._next, ""
        for namespace in sorted(names, key=lambda name: (name < first, name)):
            if self.stopping.is_set() or ended():
                return
            if self._unanswered >= _MOST_UNANSWERED:
                # The next pass continues here: namespaces without an answer must not keep others from being read.
                self._next = namespace
                break
            readings[namespace] = self._read_one(namespace)
            self.stopping.wait(pause)
        beyond = f"not read: teamPolicies.namespaces selects {len(listed)} namespaces, expected at most {MOST_TEAMS}"
        readings |= dict.fromkeys(listed[MOST_TEAMS:], TeamReading(policy=None, problem=beyond))
        for by_namespace in (self._config_maps, self._retry, self._failures):
            for gone in by_namespace.keys() - set(names):
                del by_namespace[gone]
        if readings != self._readings:
            self._readings = readings
            self._tell(TeamPoliciesRead(teams=readings))

    def _read_one(self, namespace: str) -> TeamReading:
        before = self._readings.get(namespace)
        if before is not None and self._clock() < self._retry.get(namespace, 0.0):
            return before
        self._retry.pop(namespace, None)
        try:
            config_map = self._read(namespace)
        except ClusterError as error:
            self._config_maps.pop(namespace, None)
            return self._explain(namespace, error, before or _NOT_READ)
        except Exception as error:  # noqa: BLE001  # such as an answer that is no ConfigMap: no reason to stop the others
            _log.warning("team policy not read", namespace=namespace, error=str(error))
            return TeamReading(policy=(before or _NOT_READ).policy, problem=f"unreadable answer: {error}")
        self._failures.pop(namespace, None)
        if before is not None and namespace in self._config_maps and self._config_maps[namespace] == config_map:
            return before
        self._config_maps[namespace] = config_map
        try:
            return read_team_policy(config_map, before)
        except Exception as error:  # noqa: BLE001  # a defect of the reader refuses this policy and no other
            name = f"ConfigMap {namespace}/{POLICY_MAP}"
            _log.exception("team policy cannot be read", source=name)
            last = (before or _NOT_READ).policy
            return TeamReading(policy=last, problem=f"{name}: cannot be read ({type(error).__name__})")

    def _explain(self, namespace: str, error: ClusterError, before: TeamReading) -> TeamReading:
        """Return the reading after a failed request: a missing right is reported, a lost answer is not."""
        _log.warning("team policy not read", namespace=namespace, error=str(error))
        if isinstance(error, RequestRefused) and error.status in _NO_RIGHT:
            self._retry[namespace] = self._clock() + RETRY_SECONDS
            problem = (
                f"the controller's account may not read ConfigMap {namespace}/{POLICY_MAP}; deploy/team has the Role"
            )
            return TeamReading(policy=before.policy, problem=problem)
        self._unanswered += 1
        failures = self._failures[namespace] = self._failures.get(namespace, 0) + 1
        if failures > 1:  # the first failure may be the server's as a whole
            self._retry[namespace] = self._clock() + min(RETRY_SECONDS, POLL_SECONDS * 2 ** min(failures, 6))
        return before if before is not _NOT_READ else TeamReading(policy=None, problem=str(error))
