"""A manifest: one document of a file, what the model knows of it, and the line of each field."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

from msgspec import structs

from rebalancer.model.cluster import Autoscaler, DisruptionBudget
from rebalancer.model.creation import LimitRange
from rebalancer.model.workloads import Workload

Path = tuple[str | int, ...]
"""The path to a field: keys, and indices of lists."""

ROOT: Final[Path] = ()


MOST_SCALED: Final = 10_000
"""Up to this many pods of a workload are placed or chosen by an autoscaler; few clusters hold more."""


ONE_EACH: Final = frozenset({"DaemonSet"})
"""Kinds with a pod for each node: they have no number of replicas, and the scheduler has no choice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Manifest:
    """A document that is a Kubernetes object, or an item of a list, at `prefix` of its document."""

    file: str
    kind: str
    namespace: str
    name: str
    value: Any
    """The object as written."""
    find_line: Callable[[Path], int]
    """Returns the line of a field, or of the nearest written field around it."""
    prefix: Path = ROOT
    ignores: frozenset[str] = frozenset()
    """The names of rules that comments in it turn off."""
    template: Path | None = None
    """The path of its pod template."""
    workload: Workload | None = None
    """The object as the model has it; None for other kinds, as for the next three."""
    budget: DisruptionBudget | None = None
    autoscaler: Autoscaler | None = None
    limit_range: LimitRange | None = None
    chosen: range | None = None
    """The numbers of replicas that an autoscaler among the manifests may choose, None without one."""
    problem: str = ""
    """Why a document, or an object of a kind that the model has, cannot be read."""
    caution: str = ""
    """A remark on an object that is read."""

    @property
    def title(self) -> str:
        """Its kind and name, with the namespace where it states one; "" for what is no object."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    def find(self, path: Path) -> Any:
        """Return the value at a path, None where there is none."""
        value: Any = self.value
        for step in path:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    @property
    def replicas(self) -> int:
        """How many pods it wants: 1 for a workload that does not say so, as the API server takes it."""
        return self.workload.replicas if self.workload is not None else 0

    @property
    def sizes(self) -> range:
        """The numbers of pods that it may want: the numbers that an autoscaler may choose, else one alone."""
        return self.chosen or range(self.replicas, self.replicas + 1)

    def at_size(self, replicas: int) -> Self:
        """Return the same manifest with another number of replicas."""
        assert self.workload is not None
        return replace(self, workload=structs.replace(self.workload, replicas=replicas))


@dataclass(frozen=True)
class Manifests:
    """All manifests of one call: what is in other files of the call belongs to it."""

    every: tuple[Manifest, ...]

    @classmethod
    def of(cls, read: Iterable[Manifest]) -> Self:
        """Return manifests; a manifest that an autoscaler scales gets at least its minReplicas."""
        every = tuple(read)
        scaled = {_target(one.autoscaler, one.namespace): one.autoscaler for one in every if one.autoscaler is not None}
        return cls(tuple(_with_sizes(one, scaled.get((one.namespace, one.kind, one.name))) for one in every))

    @cached_property
    def most(self) -> Mapping[tuple[str, str, str], int]:
        """The largest number of replicas that an autoscaler chooses, by namespace, kind and name of its target."""
        scalers = ((one.autoscaler, one.namespace) for one in self.every if one.autoscaler is not None)
        return {_target(one, namespace): one.max_replicas for one, namespace in scalers if one.max_replicas is not None}

    def find_scaler(self, manifest: Manifest) -> Manifest | None:
        """Return the autoscaler among the manifests that chooses a manifest's replicas, None without one."""
        own = manifest.namespace, manifest.kind, manifest.name
        scalers = ((one, one.autoscaler) for one in self.every)
        return next((one for one, it in scalers if it is not None and _target(it, one.namespace) == own), None)

    @cached_property
    def workloads(self) -> tuple[Manifest, ...]:
        """Those with a pod template."""
        return tuple(one for one in self.every if one.workload is not None)

    @cached_property
    def workloads_in(self) -> Mapping[str, tuple[Manifest, ...]]:
        """The workloads by namespace."""
        found: dict[str, list[Manifest]] = {}
        for one in self.workloads:
            found.setdefault(one.namespace, []).append(one)
        return {name: tuple(those) for name, those in found.items()}


def _target(autoscaler: Autoscaler, namespace: str) -> tuple[str, str, str]:
    return namespace, autoscaler.target_kind, autoscaler.target_name


def _with_sizes(manifest: Manifest, autoscaler: Autoscaler | None) -> Manifest:
    if autoscaler is None or manifest.workload is None or not manifest.workload.replicas:  # 0 turns it off
        return manifest
    written = manifest.workload.replicas if manifest.find(("spec", "replicas")) is not None else 0
    replicas = max(written, autoscaler.min_replicas)
    chosen = range(autoscaler.min_replicas, (autoscaler.max_replicas or 0) + 1)
    return replace(manifest.at_size(replicas), chosen=chosen or None)
