"""Where this account may evict, as the API server says; elsewhere nothing is requested or proposed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rebalancer.model.facts import End, Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.words import EVICT_RIGHT, EVICT_RIGHT_THERE
from rebalancer.planning.eviction import Eviction

ASKED_AGAIN: Final = 10
"""Seconds after which the API server is asked again about a missing right."""

WAY_OUT: Final = (
    f"apply {EVICT_RIGHT}, which is the right alone (in the chart policy.mode), or, for single namespaces, "
    f"{EVICT_RIGHT_THERE}"
)


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The API server's answers: where this account may evict.

    If a namespace is in no field, nothing is known about it yet.
    """

    everywhere: bool = True
    """Whether this account may evict in every namespace."""
    granted: frozenset[str] = frozenset()
    """If not everywhere: the namespaces in which this account may evict."""
    missing: Mapping[str, datetime] = field(default_factory=dict)
    """The namespaces in which the right is missing, with the time since which that is known."""

    def allows(self, namespace: str) -> bool:
        """Return whether this account is known to be allowed to evict in a namespace."""
        return self.everywhere or namespace in self.granted

    def find_missing(self, namespace: str) -> "RightMissing | None":
        """Return that this account is known to lack the right in a namespace, None otherwise."""
        return RightMissing(namespace, True) if namespace in self.missing else None

    def find_refusal(self, step: Iterable[Eviction]) -> "RightMissing | None":
        """Return why a step is not begun, None if the right is there for all its evictions."""
        namespaces = (eviction.pod.namespace for eviction in step)
        lacking = next((one for one in namespaces if not self.allows(one)), None)
        return RightMissing(lacking, lacking in self.missing) if lacking is not None else None


class RightMissing(Refusal):
    """This account may not evict in a namespace, or it is not `known` yet whether it may.

    `not_before` is when a hold on everything ends, None without such a hold.
    """

    reason = Reason.FORBIDDEN
    namespace: str
    known: bool
    not_before: datetime | None = None

    def _end(self) -> End:
        then = f", and it is {self.not_before:%Y-%m-%d %H:%M:%SZ}" if self.not_before is not None else ""
        return End(event=f"when the controller's account may evict in {self.namespace}{then}", by_people=self.known)

    def __str__(self) -> str:
        if not self.known:
            return f"the API server is being asked whether the controller's account may evict in {self.namespace}"
        lacks = f"the controller's account has no right to evict in {self.namespace}"
        return f"{lacks}: {WAY_OUT}; asked again every {ASKED_AGAIN} s"
