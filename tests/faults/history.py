"""What happened in a run: requests as the proxies saw them, the audit log, and every change of the workload's pods.

Times are seconds since the epoch by this machine's clock, which proxies and API server share. The order of the pods'
changes is the server's own, by resourceVersion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.faults.requests import Target
from tests.faults.schedule import Fault


@dataclass(kw_only=True)
class Exchange:
    """A request that a controller sent, and what became of it on its way."""

    id: str
    """Also its Audit-ID."""
    process: str
    target: Target
    begun: float
    fault: Fault | None = None
    forwarded: bool = False
    """Whether it reached the API server."""
    code: int = 0
    """The server's own answer, 0 for none."""
    answered: float | None = None
    """When the server had answered."""
    delivered: int = 0
    """The code that the controller got, 0 where it got none or half of an answer."""
    uid: str = ""
    """The UID that an eviction has as its precondition."""
    holder: str = ""
    """The holder that a write of the Lease names."""

    @property
    def is_eviction(self) -> bool:
        """Whether it asks for an eviction."""
        return self.target.verb == "create" and self.target.resource == "pods/eviction"


@dataclass(frozen=True, kw_only=True)
class PodChange:
    """A pod as the server had it from a moment on."""

    version: int
    """Its resourceVersion: the order of all changes."""
    at: float
    """When the change was seen, a little after it happened."""
    uid: str
    name: str
    node: str = ""
    ready: bool = False
    terminating: bool = False
    gone: bool = False

    @property
    def available(self) -> bool:
        """Whether the pod counts as available."""
        return self.ready and not self.terminating and not self.gone


@dataclass(frozen=True, kw_only=True)
class Write:
    """A writing request in the audit log."""

    id: str
    verb: str
    resource: str
    """With its subresource."""
    name: str
    code: int
    uid: str = ""
    """The UID that an eviction has as its precondition."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is known about the workload before the run."""

    replicas: int
    max_unavailable: int
    """Of the policy."""
    budget: int
    """maxUnavailable of the PodDisruptionBudget."""
    minimum: int
    """Evictions that its repair takes."""


@dataclass(frozen=True, kw_only=True)
class Final:
    """The state when the run ended."""

    pending: tuple[str, ...] = ()
    """Pods that have no node, or are not Ready."""
    repaired: bool = True
    placement: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause, from the moment when the server had stored it until its removal was requested."""

    stored: float
    lifted: float


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A process that was stopped by SIGSTOP for a while."""

    process: str
    since: float
    until: float


@dataclass(frozen=True, kw_only=True)
class History:
    """A whole run."""

    workload: Workload
    exchanges: tuple[Exchange, ...] = ()
    writes: tuple[Write, ...] = ()
    """Everything that the controller's account wrote, or tried to."""
    changes: tuple[PodChange, ...] = ()
    """In the order of the server, beginning with the pods that existed before."""
    pauses: tuple[Pause, ...] = ()
    frozen: tuple[Frozen, ...] = ()
    lease_seconds: float = 15.0
    final: Final = Final()
