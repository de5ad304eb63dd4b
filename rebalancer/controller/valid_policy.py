"""Stores the policy in force, so that commands can plan by it even while the newest policy is invalid.

An invalid policy replaces the valid one in its ConfigMap or file, and only the process still has the valid one. No
decision waits for the write. The controller never reads the stored policy: a new process begins with the policy that
people have written.
"""

from collections.abc import Callable
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.configmaps import put_policy
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport
from rebalancer.controller.polling import PollingThread
from rebalancer.policy.team_maps import VALID_POLICY_MAP

STORE_SECONDS = 10.0
"""Seconds between two checks whether to store, and between two tries."""

_SKIPPED: Final = 60
"""Checks to skip after a failed try, because a missing part of an installation takes minutes to appear."""

_log = structlog.get_logger("rebalancer.policy")


class ValidPolicyKeeper(PollingThread):
    """Writes `first`, and each valid policy after it, into a ConfigMap, while this process `leads`."""

    def __init__(self, transport: Transport, namespace: str, *, first: bytes, leads: Callable[[], bool]) -> None:
        self._transport, self._namespace, self._leads = transport, namespace, leads
        self._valid = first
        self._stored: bytes | None = None
        """The policy that this process has stored since it leads, None if none."""

        self._problem = ""
        self._skipped = 0
        """How many checks to skip before the next try."""

        super().__init__("valid-policy", STORE_SECONDS, self.poll)

    def take(self, policy: bytes) -> None:
        """Take a policy that is in force from now on; from any thread, never blocks."""
        self._valid, self._skipped = policy, 0

    def poll(self) -> None:
        """Store the policy in force if this process leads; a failure is logged once, and retried."""
        if not self._leads():
            self._stored = None  # another leader may have stored another policy
            return
        valid = self._valid
        self._skipped -= 1
        if valid == self._stored or self._skipped >= 0:
            return
        try:
            put_policy(self._transport, self._namespace, VALID_POLICY_MAP, valid.decode())
        except ClusterError as error:
            if str(error) != self._problem:
                place = f"ConfigMap {self._namespace}/{VALID_POLICY_MAP}"
                consequence = "while the policy is invalid, commands do not know which one is in force"
                _log.warning("policy not stored", place=place, error=str(error), consequence=consequence)
            self._problem, self._skipped = str(error), _SKIPPED
            return
        self._stored, self._problem = valid, ""
