"""PodDisruptionBudgets."""

from datetime import datetime

from msgspec import Struct

from rebalancer.model.labels import LabelSelector


class DisruptionBudget(Struct, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget (policy/v1) with the status its controller last wrote.

    `selector` None matches no pod, an empty one every pod of the namespace. `disrupted` holds (pod name, when) of
    evictions that the API server has granted and whose pods are not yet seen terminating. `always_allow`: unready
    pods may be evicted even if the budget allows none. `synced` is false if its controller could not compute it.
    """

    namespace: str
    name: str
    uid: str = ""
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    always_allow: bool = False
    generation: int = 1
    observed_generation: int = 0
    allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected: int = 0
    disrupted: tuple[tuple[str, datetime], ...] = ()
    synced: bool = True
    resource_version: str = ""
    """The simulator's; "" of what a server sent: nothing depends on it, and every write changes it."""

    def __str__(self) -> str:
        """Name it as messages do."""
        return f"{self.namespace}/{self.name}"
