"""Drawn states with podAntiAffinity on the real control plane: for the tests and for the comparison.

Each lies in namespaces and on nodes of its own, so that many can run side by side.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.closed_loop.scenario import LABEL
from tests.control_plane.api import Api
from tests.control_plane.layout import Workload, node, replica_set
from tests.control_plane.resources import Manifest
from tests.planning.anti_affinity.drawn import Drawn


class Laid:
    """A drawn state in namespaces and on nodes of its own."""

    make: Callable[..., Workload] = staticmethod(replica_set)
    """What makes the owner of an app's pods."""

    def __init__(self, drawn: Drawn, name: str) -> None:
        self.drawn = drawn
        self.name = name

    @property
    def namespaces(self) -> list[str]:
        """Where its apps live, and nothing else."""
        return sorted({self.namespace(app) for app in self.drawn.namespaces})

    def parts(self) -> Iterator[Manifest | Workload]:
        """Yield its nodes and its workloads."""
        for name, zone in self.drawn.zones.items():
            zone_name = f"{self.name}-{zone}" if zone is not None else ""
            yield node(f"{self.name}-{name}", zone=zone_name, labels={LABEL: self.name})
        yield from self.workloads()

    def workloads(self) -> Iterator[Workload]:
        """Yield its workloads."""
        for app in {app: None for app, _ in self.drawn.pods}:
            yield self.make(
                f"{self.name}-{app}",
                [f"{self.name}-{on}" for of, on in self.drawn.pods if of == app],
                namespace=self.namespace(app),
                labels=self.labels(app),
                nodeSelector={LABEL: self.name},
                **self.spec(app),
            )

    def spec(self, app: str) -> Mapping[str, Any]:
        """Return what the pods of an app declare."""
        required, preferred = [], []
        for weight, term in self.terms(app):
            if weight:
                preferred.append({"weight": weight, "podAffinityTerm": term})
            else:
                required.append(term)
        declared = {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
        return {"affinity": {"podAntiAffinity": declared}}

    def terms(self, app: str) -> Iterator[tuple[int, Manifest]]:
        """Yield the terms that the pods of an app declare, with their weights; that of a required one is 0."""
        for term in self.drawn.terms:
            if term.app == app:
                places: Manifest = {"namespaceSelector": {}} if term.everywhere else {}
                selector = {"matchLabels": self.labels(term.to)}
                yield term.weight, {"topologyKey": term.key, "labelSelector": selector, **places}

    def labels(self, app: str) -> dict[str, str]:
        """Return what marks the pods of an app."""
        return {"app": f"{self.name}-{app}"}

    def namespace(self, app: str) -> str:
        """Return where an app lives."""
        return f"{self.name}-{self.drawn.namespaces[app]}"

    def placed(self, api: Api) -> list[tuple[str, str]]:
        """Return its pods as they are now, by app and node, "" for none."""
        pods = [pod for namespace in self.namespaces for pod in api.list(f"/api/v1/namespaces/{namespace}/pods")]
        return [
            (pod["metadata"]["labels"]["app"].rpartition("-")[2], pod["spec"].get("nodeName", "").rpartition("-")[2])
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        ]
