"""Where this account may evict, by the answers of the API server: nothing is requested or proposed elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rebalancer.model.facts import End, Refusal
from rebalancer.model.reasons import Reason
from rebalancer.model.words import EVICT_RIGHT, EVICT_RIGHT_THERE
from rebalancer.planning.eviction import Eviction

ASKED_AGAIN: Final = 10
"""Seconds after which a right that is missing is asked for again."""

WAY_OUT: Final = (
    f"apply {EVICT_RIGHT}, which is the right alone (in the chart policy.mode), or, for single namespaces, "
    f"{EVICT_RIGHT_THERE}"
)


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The API server's answers: where this account may evict.

    About a namespace that is in none of the fields nothing is known yet.
    """

    everywhere: bool = True
    """Whether it may evict in every namespace."""
    granted: frozenset[str] = frozenset()
    """The namespaces in which it may evict, otherwise."""
    missing: Mapping[str, datetime] = field(default_factory=dict)
    """Since when it is known that it may not, by namespace."""

    def allows(self, namespace: str) -> bool:
        """Return whether this account is known to be allowed to evict in a namespace."""
        return self.everywhere or namespace in self.granted

    def find_missing(self, namespace: str) -> "RightMissing | None":
        """Return that this account is known to lack the right in a namespace, None where it is not."""
        return RightMissing(namespace, True) if namespace in self.missing else None

    def find_refusal(self, step: Iterable[Eviction]) -> "RightMissing | None":
        """Return why a step is not begun, None where the right for all of it is there."""
        namespaces = (eviction.pod.namespace for eviction in step)
        lacking = next((one for one in namespaces if not self.allows(one)), None)
        return RightMissing(lacking, lacking in self.missing) if lacking is not None else None


class RightMissing(Refusal):
    """This account may not evict in a namespace, or it is not `known` yet whether it may.

    `not_before` is when what keeps everything back ends, None where nothing does.
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
