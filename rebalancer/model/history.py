"""The stored history: one entry for each thing that has happened.

The ConfigMaps of the history keep thousands of entries. So the keys are short, times are whole seconds since 1970, and
empty fields are left out. `reporting.documents.history` has the form for people and scripts.
"""

from enum import StrEnum

from msgspec import Struct, field, structs

NAME_LIMIT = 253
"""Characters of a name, as Kubernetes bounds them."""

TEXT_LIMIT = 120
"""Characters of a free text."""

UNKNOWN = "unknown"
"""The name of a person whom Kubernetes does not name."""


class EntryKind(StrEnum):
    """What has happened."""

    MOVED = "Moved"
    """An eviction has ended, with any outcome."""
    SURGED = "Surged"
    """A surge has ended, with any outcome."""
    VIOLATED = "Violated"
    """A constraint or a limit began to be violated."""
    SATISFIED = "Satisfied"
    """A violation ended."""
    WITHOUT_NODE = "WithoutNode"
    """Pods of workloads began to wait for a node; no constraint or limit is violated."""
    NODE_FOUND = "NodeFound"
    """The waiting pods have a node, or are no longer pending."""
    NO_LONGER_REQUIRED = "NoLongerRequired"
    """A violated constraint or limit is no longer required; nothing satisfies it."""
    END_UNKNOWN = "EndUnknown"
    """A violated constraint or limit is no longer evaluated under its name; its outcome is not known."""
    PAUSED = "Paused"
    RESUMED = "Resumed"
    APPROVED = "Approved"
    APPROVAL_ENDED = "ApprovalEnded"
    """The approval of a whole plan has ended: withdrawn, expired, used up, or voided by a change."""
    POLICY_CHANGED = "PolicyChanged"
    POLICY_REFUSED = "PolicyRefused"
    POLICY_MISSING = "PolicyMissing"
    """There is no policy to read any more; the last policy stays in force."""
    RIGHT_MISSING = "RightMissing"
    """The controller's account may not evict where evictions are due."""
    RIGHT_GRANTED = "RightGranted"
    """The controller's account may evict again."""
    LEADS = "Leads"
    """A process began to lead."""
    ZONE_LOST = "ZoneLost"
    """The last node of a zone is gone or not Ready."""
    ZONE_RETURNED = "ZoneReturned"
    """A zone that was lost has a Ready node again."""
    SAMPLE = "Sample"
    """The extent of the violations has changed."""
    DROPPED = "Dropped"
    """Entries could not be stored in time, and were dropped."""


class EndedPause(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pause, as declared by whoever ended it, for a controller that has not seen it; times in seconds since 1970.

    `since` is when it was written, 0 if that is not known. `at` is when it ended, and `until` when it would have ended
    by itself, 0 if never.
    """

    by: str = ""
    manager: str = ""
    """The field manager that wrote the pause."""
    reason: str = ""
    since: int = 0
    until: int = 0
    at: int = 0


class Author(Struct, frozen=True, gc=False, omit_defaults=True):
    """Who has changed an object, as far as the object says."""

    who: str = ""
    """The name that the command has written beside its change, "" if none.

    Anybody who may write the object may declare any name.
    """
    of: str = ""
    """The subject of that change."""
    ended: EndedPause | None = None
    """The pause that the change ended, None for any other change."""
    manager: str = ""
    """The field manager that Kubernetes has recorded."""
    at: int = 0
    """When Kubernetes recorded it, in seconds since 1970."""

    def about(self, of: str) -> "Author":
        """Return the author of a change about `of`, without a name declared for something else, such as a pause."""
        return self if self.of == of else structs.replace(self, who="")


NOBODY = Author()


class Entry(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One thing that has happened; fields that its kind does not have keep their defaults.

    `seq` increases strictly over all leaders. Names have at most NAME_LIMIT characters, texts TEXT_LIMIT.
    """

    seq: int = field(name="s")
    at: int = field(name="t")
    """When it was observed, in seconds since 1970, as all times; earlier for an end that first waited for a repair."""
    kind: str = field(name="k")
    """The value of an EntryKind; a later release may have stored other kinds."""
    namespace: str = field(default="", name="n")
    workload: str = field(default="", name="w")
    """KIND/NAME; for a violation of several workloads the first workload."""
    others: str = field(default="", name="v")
    """The other workloads, each KIND/NAME and separated by commas, up to TEXT_LIMIT characters."""
    token: str = field(default="", name="g")
    """A token of the violated object (`model.moves.make_token`): equal at the violation's begin and end."""
    what: str = field(default="", name="m")
    """What is violated, why it is not required, the name of a zone, a policy's or plan's hash, or what is wrong.

    For a surge, the pods that were to go.
    """
    cause: str = field(default="", name="y")
    """What caused a violation, why a pod was moved, or why an approval has ended."""
    pod: str = field(default="", name="p")
    uid: str = field(default="", name="u")
    node: str = field(default="", name="f")
    """The node that the pod was evicted from."""
    to: str = field(default="", name="d")
    """The domains that the replacement was predicted in."""
    replacement_node: str = field(default="", name="o")
    """The node of the replacement, "" where that is not known."""
    outcome: str = field(default="", name="e")
    """The state in which a move, or a surge, has ended."""
    since: int = field(default=0, name="b")
    """For an end: when the move was requested, the surge begun, or the violation observed; 0 if not known."""
    ready: int = field(default=0, name="i")
    """For a move: when its replacement became Ready, 0 if only a snapshot shows it as Ready."""
    late: bool = field(default=False, name="z")
    """Whether a new leader observed this end when it began to lead; the true end may be much earlier."""
    until: int = field(default=0, name="l")
    """When a pause, or the approval of a whole plan, ends or ended by itself; 0 if it does not."""
    who: str = field(default="", name="a")
    """The process that leads, or the person who paused, resumed, approved, changed the policy: declared, or UNKNOWN."""
    manager: str = field(default="", name="r")
    number: int = field(default=0, name="c")
    """How many workloads a violation concerns or are violated in a sample, entries were dropped, nodes a zone had.

    For the approval of a whole plan: how many evictions it allows, or at its end, still allowed. For a right: how many
    namespaces it is about. For a surge: how many pods it adds.
    """
    above: int = field(default=0, name="h")
    """For a sample: how many pods are above the bounds of their domains. For a lost zone: how many pods it held."""
    skew: int = field(default=0, name="x")
    """For a sample: the largest skew in the cluster."""
    approval: str = field(default="", name="j")
    """For a move in mode Approve: the hash of the plan whose approval covered its request."""


class SeenGone(Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """When a cycle first saw that the object with this token is no longer violated.

    `late`: it was the first cycle of a leader, so the violation may have ended long before.
    """

    token: str
    at: int
    late: bool = False


class Noted(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the history already has; stored with the memory, so that a new leader reports each thing only once.

    For acts of people it has the last reports. A token is a short name for a text (`model.moves.make_token`).
    """

    seq: int = 0
    """The number of the last entry."""
    pause: str = ""
    """A token of the pause, "" without one."""
    paused_at: int = 0
    resumed: str = ""
    """A token of the last declared end of a pause: the only trace of a pause that nobody has seen."""
    expired: str = ""
    """A token of the last pause that was found to have expired."""
    approved: str = ""
    """The hash of the plan that was approved last."""
    whole: str = ""
    """The identity of the approval of a whole plan that was written last."""
    policy: str = ""
    """The hash of the cluster policy in force."""
    lacking: tuple[str, ...] = ()
    """Namespaces in which the right to evict was missing, as reported."""
    refused: str = ""
    """A token of what is wrong with the newest policy, "" if it is in force."""
    open: tuple[tuple[str, int], ...] = ()
    """Violations, by token, that began at another time than the one in the memory's `seen`.

    They were interrupted by a repair, or their pods first waited for a node.
    """
    gone: tuple[SeenGone, ...] = ()
    """The violations of `open` that are no longer violated while their repair lasts."""
    waiting: tuple[str, ...] = ()
    """Groups, by token, whose pods wait for a node, and whose constraints were not violated since that began."""
    violated: int = 0
    """This and the next two fields are from the last sample."""
    above: int = 0
    skew: int = 0
