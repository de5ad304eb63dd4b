"""A manifest: one document of a file, what the model reads from it, and the line of each field."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

from msgspec import structs

from rebalancer.model.cluster import Autoscaler, DisruptionBudget
from rebalancer.model.creation import LimitRange
from rebalancer.model.workloads import Workload

Path = tuple[str | int, ...]
"""The path of a field: keys, and indices of lists."""

ROOT: Final[Path] = ()


MOST_SCALED: Final = 10_000
"""At most this many pods of a workload are placed, or assumed for an autoscaler; few clusters hold more."""


ONE_EACH: Final = frozenset({"DaemonSet"})
"""Kinds with one pod on each node, which have no number of replicas and leave the scheduler no choice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Manifest:
    """A Kubernetes object: a document, or an item of a list at the path `prefix` of its document."""

    file: str
    kind: str
    namespace: str
    name: str
    value: Any
    """The object as written."""
    find_line: Callable[[Path], int]
    """Return the line of a field or, if it is not written, of the nearest field around it."""
    prefix: Path = ROOT
    ignores: frozenset[str] = frozenset()
    """The names of rules that comments in the document turn off."""
    template: Path | None = None
    """The path of the object's pod template."""
    workload: Workload | None = None
    """The object in the model; None for kinds that are not workloads. The same holds for the next three fields."""
    budget: DisruptionBudget | None = None
    autoscaler: Autoscaler | None = None
    limit_range: LimitRange | None = None
    chosen: range | None = None
    """The numbers of replicas that an autoscaler among the manifests may choose; None if none scales the object."""
    problem: str = ""
    """Why the document, or an object of a kind that the model knows, cannot be read."""
    caution: str = ""
    """A remark on an object that can be read."""

    @property
    def title(self) -> str:
        """Its kind and name, with the namespace if it is written; "" for a document that is not an object."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    def find(self, path: Path) -> Any:
        """Return the value at a path; None if there is none."""
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
        """How many pods the workload wants; 1 if that is not written, which is the API server's default."""
        return self.workload.replicas if self.workload is not None else 0

    @property
    def sizes(self) -> range:
        """The numbers of pods that the workload may want: those that an autoscaler may choose, or else its replicas."""
        return self.chosen or range(self.replicas, self.replicas + 1)

    def at_size(self, replicas: int) -> Self:
        """Return the same manifest with another number of replicas."""
        assert self.workload is not None
        return replace(self, workload=structs.replace(self.workload, replicas=replicas))


@dataclass(frozen=True)
class Manifests:
    """All manifests of one call, which may refer to each other across files."""

    every: tuple[Manifest, ...]

    @classmethod
    def of(cls, read: Iterable[Manifest]) -> Self:
        """Return manifests in which each scaled workload has at least its autoscaler's minReplicas."""
        every = tuple(read)
        scaled = {_target(one.autoscaler, one.namespace): one.autoscaler for one in every if one.autoscaler is not None}
        return cls(tuple(_with_sizes(one, scaled.get((one.namespace, one.kind, one.name))) for one in every))

    @cached_property
    def most(self) -> Mapping[tuple[str, str, str], int]:
        """The most replicas that an autoscaler chooses, by namespace, kind and name of its target."""
        scalers = ((one.autoscaler, one.namespace) for one in self.every if one.autoscaler is not None)
        return {_target(one, namespace): one.max_replicas for one, namespace in scalers if one.max_replicas is not None}

    def find_scaler(self, manifest: Manifest) -> Manifest | None:
        """Return the autoscaler among the manifests that chooses a manifest's replicas; None if there is none."""
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
