"""Small facts about a cluster: namespaces, services, priority classes, its version."""

from typing import Self

from msgspec import Struct

from rebalancer.model.labels import NO_LABELS, Labels


class Namespace(Struct, frozen=True, gc=False, kw_only=True):
    """A namespace with its labels, which affinity terms may select. `terminating`: it has a deletionTimestamp."""

    name: str
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    terminating: bool = False


class Service(Struct, frozen=True, gc=False, kw_only=True):
    """A service. `selector` None: it selects no pods itself."""

    namespace: str
    name: str
    selector: Labels | None = None


class PriorityClass(Struct, frozen=True, gc=False, kw_only=True):
    """A priority class."""

    name: str
    value: int
    default: bool = False
    preempts: bool = True


class Version(Struct, frozen=True, gc=False, order=True):
    """The API server's version; the scheduler is assumed to have the same."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1.36`, `v1.36.3`, `1.33+`; raise ValueError for anything else."""
        parts = text.removeprefix("v").split(".")
        try:
            return cls(int(parts[0]), int(parts[1].rstrip("+")))
        except (ValueError, IndexError):
            raise ValueError(f"{text!r} is not a Kubernetes version; expected one such as 1.36") from None

    def __str__(self) -> str:
        """Show it as `1.36`."""
        return f"{self.major}.{self.minor}"


OLDEST = Version(1, 30)
"""The oldest version whose scheduler is modelled."""
NEWEST = Version(1, 36)
"""The version that is assumed if none is given."""
