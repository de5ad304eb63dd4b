"""Why a repair waits for capacity, or will not get any: causes as data, which reporting puts into words."""

from datetime import timedelta
from typing import Final

from rebalancer.model.moves import DomainName
from rebalancer.model.pods import Resources
from rebalancer.planning.causes import Fact


class CapacityNeeded(Fact, frozen=True, gc=False):
    """A repair of so many evictions lacks only capacity for `pods` pods; `obstacle` is why it is not requested."""

    domains: tuple[DomainName, ...]
    evictions: int
    pods: int
    requests: Resources
    obstacle: Fact | None


class CapacityObserves(Fact, frozen=True, gc=False):
    """The policy's capacity.mode is Observe."""


class PlaceholdersUnread(Fact, frozen=True, gc=False):
    """The Jobs of placeholders could not be read; the message says why."""

    message: str


class NotInModeEvict(Fact, frozen=True, gc=False):
    """The mode in force is not Evict."""


class NotYetLasting(Fact, frozen=True, gc=False):
    """The repair has lacked capacity for less than spread.for."""

    lasted: timedelta
    required: timedelta


class OthersRequested(Fact, frozen=True, gc=False):
    """With the placeholders of other requests there would be more than capacity.maxPods."""

    present: int
    most: int


class TooManyPlaceholders(Fact, frozen=True, gc=False):
    """The repair needs more placeholders than capacity.maxPods."""

    domains: tuple[DomainName, ...]
    pods: int
    most: int


class CapacityBackingOff(Fact, frozen=True, gc=False):
    """Capacity in the domain was requested before: it did not come, or it was taken away again (`failure` is "")."""

    domain: DomainName
    failure: str
    times: int
    left: timedelta


class DomainJustLost(Fact, frozen=True, gc=False):
    """The domain had nodes a short time ago; it is left alone for a while."""

    domain: DomainName
    ago: timedelta
    left: timedelta


class CapacityRequested(Fact, frozen=True, gc=False):
    """Capacity was requested; so many of the placeholders run, and must do so for a while."""

    domains: tuple[DomainName, ...]
    running: int
    placeholders: int
    ago: timedelta


class CapacityBeingFreed(Fact, frozen=True, gc=False):
    """Placeholders are being deleted to make capacity for the replacement."""

    placeholders: int


class CapacityDisputed(Fact, frozen=True, gc=False):
    """A pod that is not ours waits for a node, and could take the capacity."""

    pod: str


class CapacityHeld(Fact, frozen=True, gc=False):
    """The capacity that the replacement needs is held by placeholders for another repair, or no longer there."""


class CapacityIncomplete(Fact, frozen=True, gc=False):
    """Capacity was requested for the whole repair, and not all of it is there yet."""


OF_CAPACITY: Final = (CapacityNeeded, TooManyPlaceholders, CapacityBackingOff, DomainJustLost, CapacityRequested)
"""Why the repair of a workload lacks capacity."""
