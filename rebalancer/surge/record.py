"""The record of a surge, stored before anything is written, so that the next leader continues it or takes it back.

All records are one text in a ConfigMap of their own, which stores nothing else and is never trimmed.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from rebalancer.model.moments import Moment
from rebalancer.model.moves import Reference
from rebalancer.model.worded import Worded

RECORDS_KEY: Final = "surges.json"

MOST_SURGES: Final = 100
"""Most concurrent surges: a record has some 300 bytes, and 120 more for each of at most ten victims."""


class Phase(StrEnum):
    """The phase of a surge, which says what is done next. Each phase is stored before it begins."""

    MARKING = "Marking"
    """The victims get the lowest deletion cost."""
    ADDING = "Adding"
    """The workload is scaled up."""
    WAITING = "Waiting"
    """All pods must be Ready for `repair.settle`."""
    REMOVING = "Removing"
    """The workload is scaled down to its original number."""
    TAKING_BACK = "TakingBack"
    """The added pods are marked in place of the victims, and the workload is scaled down to its original number."""
    UNMARKING = "Unmarking"
    """Remaining marks are removed."""


TRANSITIONS: Final[Mapping[Phase, Mapping[Phase, str]]] = {
    Phase.MARKING: {
        Phase.ADDING: "the victims are marked",
        Phase.TAKING_BACK: "given up",
        Phase.UNMARKING: "taken over",
    },
    Phase.ADDING: {
        Phase.WAITING: "scaled up",
        Phase.TAKING_BACK: "given up",
        Phase.UNMARKING: "taken over",
    },
    Phase.WAITING: {
        Phase.REMOVING: "all Ready for a while",
        Phase.TAKING_BACK: "given up",
        Phase.UNMARKING: "taken over",
    },
    Phase.REMOVING: {
        Phase.WAITING: "a pod is not Ready",
        Phase.TAKING_BACK: "given up",
        Phase.UNMARKING: "scaled down, or taken over",
    },
    Phase.TAKING_BACK: {Phase.UNMARKING: "scaled down, or taken over"},
    Phase.UNMARKING: {},
}
"""Which phases follow each phase, and when. "Taken over": another author or an autoscaler writes the replicas.

"Given up": it has timed out, a rollout has begun, a victim is gone, or the policy no longer allows it.
"""


class Ending(Worded):
    """How a surge ended; `sentence` is for people."""

    DONE = "Done", "the marked pods are gone, and all others stayed"
    MISPREDICTED = "Mispredicted", "another pod than a marked one is gone"
    TIMED_OUT = "TimedOut", "not all pods were Ready within repair.timeout; the added ones were taken back"
    NOT_BEGUN = "NotBegun", "the pods that were to go could not be marked within repair.timeout; nothing was added"
    ROLLED_OUT = "RolledOut", "a rollout began; the added pods were taken back"
    SCALED = "Scaled", "somebody else has scaled the workload, and that number stands"
    AUTOSCALED = "Autoscaled", "an autoscaler sets the number of replicas now"
    VICTIM_GONE = "VictimGone", "a pod that was to go was gone, not Ready or terminating; nothing that was added stays"
    UNMARKED = "Unmarked", "somebody else has changed the deletion cost of a marked pod; the added pods were taken back"
    WORKLOAD_GONE = "WorkloadGone", "the workload is gone, or another one has its name; what it left is as it was"
    NOT_WANTED = "NotWanted", "the policy no longer adds this many pods there; the added pods were taken back"


class Marked(Struct, frozen=True, array_like=True):
    """A pod that is to go, and its node."""

    uid: str
    name: str
    node: str = ""


class Surge(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A surge of a workload: `added` pods in addition to `count`, created by `owner`, the owner of its pods."""

    namespace: str
    kind: str
    name: str
    uid: str
    """The UID of the workload."""
    owner: str
    group: str
    """The component that the surge repairs."""
    count: int
    added: int
    victims: tuple[Marked, ...]
    begun: Moment
    until: Moment
    """Until when the present phase may last."""
    phase: Phase = Phase.MARKING
    ending: Ending | None = None
    """How the surge ends, once decided."""
    approval: str = ""
    """In mode Approve, the plan whose approval lets the surge begin."""
    owners: tuple[str, ...] = ()
    """The last authors of the replicas before they were raised."""
    late: Moment | None = None
    """Until when the API server may still carry out a scale-up whose answer was lost."""

    def enter(self, phase: Phase, **changes: Any) -> "Surge":
        """Return the record in the next phase. An invalid transition is a defect, and nothing is stored."""
        assert phase in TRANSITIONS[self.phase], f"{phase} does not follow {self.phase}"
        return structs.replace(self, phase=phase, **changes)

    @property
    def workload(self) -> Reference:
        """The reference to the workload."""
        return Reference(self.namespace, self.kind, self.name)

    @property
    def most(self) -> int:
        """The number of replicas with the added pods."""
        return self.count + self.added


_DECODER: Final = msgspec.json.Decoder(tuple[Surge, ...])


def encode_surges(surges: Iterable[Surge]) -> str:
    """Return the text that is stored, the oldest first."""
    return msgspec.json.encode(sorted(surges, key=lambda one: (one.begun, one.uid))).decode()


def decode_surges(text: str) -> tuple[Surge, ...]:
    """Return the stored surges; raise msgspec.DecodeError if the text is damaged."""
    return _DECODER.decode(text) if text.strip() else ()
