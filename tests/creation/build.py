"""An owner with pods of its template, and the pod that would replace one of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.containers import Amounts, ContainerRequests, PodRequests
from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.requests import sum_requests, sum_scored_requests
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.view import View

NOW = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def cpu(milli: int) -> Amounts:
    return (("cpu", milli),)


def requested(*containers: Amounts, limits: Amounts = (), **fields: Any) -> PodRequests:
    """Return what containers request, of which each has these limits."""
    names = ("app", "proxy", "agent")
    return PodRequests(
        containers=tuple(
            ContainerRequests(name=name, requests=amounts, limits=limits)
            for name, amounts in zip(names, containers, strict=False)
        ),
        **fields,
    )


def spec_of(requests: PodRequests, **fields: Any) -> PodSpec:
    return PodSpec(requests=sum_requests(requests)[0], scored=sum_scored_requests(requests), **fields)


def a_pod(
    requests: PodRequests, *, name: str = "web-1", age: timedelta = HOUR, generation: int = 1, **fields: Any
) -> Pod:
    """Return a pod of the template; the other fields are its spec's."""
    spec = spec_of(requests, **fields)
    return Pod(
        namespace="shop",
        name=name,
        uid=name,
        labels=Labels({"app": "web", "pod-template-hash": "1"}),
        spec=spec,
        node="a",
        phase=PodPhase.RUNNING,
        created=NOW - age,
        owner=OwnerReference(group="apps", kind="ReplicaSet", name="web-x", uid="rs"),
        requests=spec.requests,
        requested=requests,
        generation=generation,
    )


def an_owner(written: PodRequests, **template: Any) -> Workload:
    """Return a ReplicaSet below a Deployment; what is no field of a template is one of its spec."""
    own = {name: template.pop(name) for name in ("service_account", "security") if name in template}
    spec = spec_of(written, **template)
    return Workload(
        group="apps",
        kind="ReplicaSet",
        namespace="shop",
        name="web-x",
        uid="rs",
        created=NOW,
        template=PodTemplate(
            labels=Labels({"app": "web", "pod-template-hash": "1"}), spec=spec, requested=written, **own
        ),
        revision="1",
        owner=OwnerReference(group="apps", kind="Deployment", name="web", uid="d"),
    )


def a_snapshot(owner: Workload, *pods: Pod, **objects: Any) -> Snapshot:
    top = Workload(group="apps", kind="Deployment", namespace="shop", name="web", uid="d", created=NOW)
    return Snapshot(taken_at=NOW, pods=pods, workloads=(top, owner), **objects)


def next_pod(written: PodRequests, *pods: Pod, runtime_class: str = "", **objects: Any) -> Pod:
    """Return the pod that would replace the first one, of a template that is written so."""
    owner = an_owner(written, runtime_class=runtime_class)
    evicted = pods[0] if pods else structs.replace(a_pod(written, name="gone"), phase=PodPhase.FAILED)
    made = replacement(evicted, View(a_snapshot(owner, *pods, **objects)))
    assert isinstance(made, Pod), made
    return made
