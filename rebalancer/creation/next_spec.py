"""The spec of an owner's next pod: its template, and what admission makes of it today.

The newest pod of the template is the better source for most fields: admission has filled in priority and tolerations,
and webhooks have made their changes. Without such a pod, the template itself is used with the known defaults. What may
have changed since is evaluated anew: the requests (`next_requests`), and the node selector (`node_selectors`).
"""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.creation.defaults import apply_defaults
from rebalancer.creation.next_requests import AS_CREATED, NextRequests, find_requests, find_targets
from rebalancer.creation.node_selectors import Plugin, find_selectors, heeds
from rebalancer.model.affinity import Toleration
from rebalancer.model.containers import PodRequests
from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.requests import sum_requests, sum_scored_requests, sum_scored_sidecars_as_init
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_CREATED: Final = attrgetter("created")


class NextSpec(NamedTuple):
    """The spec of a pod that has still to be made, with its requests container by container.

    `spec.requests` are the largest possible requests, `least` the smallest, None if equal. `scored` is what counts once
    the pod runs.
    """

    spec: PodSpec
    scored: tuple[int, int]
    requested: PodRequests | None
    least: Resources | None


def find_witness(pods: Sequence[Pod]) -> Pod | None:
    """Return the pod of a template that best shows the effect of admission: the newest pod that was not changed."""
    newest_first = _sort(pods)
    return next((pod for pod in newest_first if pod.generation <= AS_CREATED), next(iter(newest_first), None))


def _sort(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the newest first, and among equally old pods the first."""
    return sorted(pods, key=_CREATED, reverse=True)


def make_next(
    owner: Workload, template: PodTemplate | None, pods: Sequence[Pod], view: View
) -> NextSpec | Unpredictable:
    """Return the spec of an owner's next pod; `pods` are pods of its template, if any.

    The template is None if it is not known, or if a partition keeps the pod at an older template.
    """
    newest_first = _sort(pods)
    witness = find_witness(newest_first)
    if template is None and witness is not None and witness.generation > AS_CREATED:
        return Unpredictable(
            Reason.NOT_PREDICTABLE,
            f"a new pod of {owner} is made from a template that is not read, and all pods that show it were changed in "
            "place: what it will request is not known. Restart one of them",
        )
    if witness is not None:
        spec, scored = witness.spec, witness.scored
        # A live pod has lost its gates, and its node may be the scheduler's choice, so both come from the template.
        if template is not None and (template.spec.gated or template.spec.node_name is not None):
            gated = spec.gated or template.spec.gated
            spec = structs.replace(spec, gated=gated, node_name=template.spec.node_name)
    elif template is not None:
        spec = apply_defaults(template.spec, template.labels, view)
        scored = spec.scored
    elif owner.template is not None:
        return Unpredictable(
            Reason.NOT_PREDICTABLE,
            f"the partition of its owner {owner} keeps it at revision {owner.current_revision}, and no other pod shows "
            "that template",
        )
    else:
        return Unpredictable(
            Reason.NOT_PREDICTABLE, f"its owner {owner} has neither a known template nor a current pod"
        )
    selected = _select_nodes(spec, owner, view)
    if isinstance(selected, Unpredictable):
        return selected
    if _are_alike(newest_first, template) and not _are_decided_elsewhere(owner, template, view):
        requested = witness.requested if witness is not None else None
        return NextSpec(selected, scored, requested, None)
    return _with_requests(selected, scored, find_requests(owner, template, newest_first, view.snapshot))


def _with_requests(spec: PodSpec, scored: tuple[int, int], found: NextRequests | None) -> NextSpec:
    if found is None:
        return NextSpec(spec, scored, None, None)
    requests, as_running = sum_requests(found.most)
    least, _ = sum_requests(found.least)
    if requests != spec.requests:
        spec = structs.replace(
            spec,
            requests=requests,
            scored=sum_scored_requests(found.most),
            scored_sidecars_as_init=sum_scored_sidecars_as_init(found.most),
        )
        scored = as_running
    return NextSpec(spec, scored, found.most, least if found.least != found.most else None)


def _are_alike(pods: Sequence[Pod], template: PodTemplate | None) -> bool:
    """Return whether pods share one spec with the template's requests, the usual case."""
    if template is None or template.requested is None:
        return True
    return bool(pods) and all(pod.spec is pods[0].spec for pod in pods) and pods[0].requested == template.requested


def _are_decided_elsewhere(owner: Workload, template: PodTemplate | None, view: View) -> bool:
    """Return whether an object of the cluster may change the requests of an owner's new pods."""
    snapshot = view.snapshot
    in_namespace = snapshot.limit_ranges_in.get(owner.namespace) or (
        template is not None and template.spec.runtime_class in snapshot.runtime_class
    )
    return bool(in_namespace or find_targets(owner, snapshot))


def _select_nodes(spec: PodSpec, owner: Workload, view: View) -> PodSpec | Unpredictable:
    """Return the spec with the node selectors and tolerations that its RuntimeClass and its namespace add today."""
    snapshot = view.snapshot
    runtime_class = snapshot.runtime_class.get(spec.runtime_class)
    added: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    if runtime_class is not None:
        added |= runtime_class.node_selector
        tolerations = tuple([one for one in runtime_class.tolerations if one not in spec.tolerations])
    written = owner.template.spec.node_affinity.selector if owner.template is not None else NO_LABELS
    for annotation, labels in find_selectors(snapshot.namespace.get(owner.namespace)):
        conflict = next((key for key in sorted(labels) if written.get(key, labels[key]) != labels[key]), None)
        if labels.items() <= spec.node_affinity.selector.items():
            continue
        plugin = view.memo(("heeds", annotation), partial(heeds, annotation, snapshot))
        if plugin is Plugin.ON and conflict is not None:
            return Unpredictable(
                Reason.TEMPLATE_REFUSED,
                f"its template selects nodes with {conflict}={written[conflict]}, and {annotation} of namespace "
                f"{owner.namespace} those with {conflict}={labels[conflict]}: the API server refuses its pods",
            )
        if plugin is Plugin.ON:
            added |= labels
        elif plugin is Plugin.UNKNOWN and any(not labels.items() <= node.labels.items() for node in snapshot.nodes):
            return Unpredictable(
                Reason.NOT_PREDICTABLE,
                f"namespace {owner.namespace} is annotated {annotation}, and no pod shows whether the API server adds "
                "that to new pods. Restart a pod there, or remove the annotation; of a file, kubectl has to print it "
                "with --show-managed-fields",
            )
    if added.items() <= spec.node_affinity.selector.items() and not tolerations:
        return spec
    selector = Labels({**spec.node_affinity.selector, **added})
    return structs.replace(
        spec,
        node_affinity=structs.replace(spec.node_affinity, selector=selector),
        tolerations=(*spec.tolerations, *tolerations),
    )
