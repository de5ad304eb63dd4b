"""A rollout step by step: whether each new pod finds a node beside the other pods, whatever the scheduler chooses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.lint.doubts import has_unknown_priority
from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.ground import Ground, reference_of
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.rollout_certain import is_certain
from rebalancer.lint.rollout_quotas import read_quotas
from rebalancer.lint.rollout_search import MOST_PODS, Rollout, State, find_end, find_wedge, is_wedged
from rebalancer.lint.strategy import RollingUpdate, is_paused, read_partition, read_rolling_update
from rebalancer.model.pods import Pod
from rebalancer.model.words import name_list, plural
from rebalancer.scheduling.preemption import has_lower_pods
from rebalancer.scheduling.rejections import count_rejections, describe_rejections, reject_nodes
from rebalancer.scheduling.unpredictable import Unpredictable

_STATEFUL_PATH: Final[Path] = ("spec", "template")


class _Way(NamedTuple):
    """A rollout that wedges in a state, on every path or on one simulated path."""

    rollout: Rollout
    state: State
    always: bool


def check_steps(manifest: Manifest, ground: Ground) -> Iterator[Finding]:
    """Yield a rollout that wedges between its first step and its end, or waits for a pod before it begins."""
    yield from _waiting(manifest, ground)
    rollout = _read_rollout(manifest, ground)
    way = _find_way(rollout) if rollout is not None else None
    if way is None:
        return
    certain = way.always and _is_settled(manifest, ground) and _wedges_without_ending(way.rollout, ground)
    update = read_rolling_update(manifest)
    yield Finding(
        rule=Rule.ROLLOUT_WEDGES,
        severity=Severity.ERROR if certain else Severity.WARNING,
        manifest=manifest,
        path=update.unavailable_path if update is not None else _STATEFUL_PATH,
        message=_describe(way),
        patch=_allow_more(manifest, way.rollout, update) if update is not None else (),
    )


def _waiting(manifest: Manifest, ground: Ground) -> Iterator[Finding]:
    """Yield a StatefulSet whose update does not begin because a pod is not Ready."""
    found, workload = ground.find_rollout(manifest), manifest.workload
    if found is None or read_partition(manifest) is None or workload is None or workload.parallel:
        return
    ready = {pod.name for pod in found[1] if pod.ready}
    names = (f"{manifest.name}-{ordinal}" for ordinal in workload.ordinals)
    waiting = next((name for name in names if name not in ready), None)
    if waiting is not None:
        yield Finding(
            rule=Rule.ROLLOUT_WEDGES,
            severity=Severity.WARNING,
            manifest=manifest,
            path=_STATEFUL_PATH,
            message=f"the rollout does not begin before {waiting} is Ready: podManagementPolicy is OrderedReady, so "
            "that the controller waits for each pod of the old template first",
        )


def is_played(manifest: Manifest, ground: Ground) -> bool:
    """Return whether a rollout is searched, so that no simpler rule says whether it wedges."""
    rollout = _read_rollout(manifest, ground)
    return rollout is not None and len(rollout.new) <= MOST_PODS


def _allow_more(manifest: Manifest, rollout: Rollout, update: RollingUpdate) -> tuple[Operation, ...]:
    """Return the change that lets one more pod be missing, if no path wedges then."""
    more = update.unavailable + 1
    if len(rollout.new) > MOST_PODS:
        return ()
    changed = replace(rollout, unavailable=more)
    if find_wedge(changed).complete and find_end(changed).found is not None:
        return set_field(manifest, update.unavailable_path, more)
    return ()


def _read_rollout(manifest: Manifest, ground: Ground) -> Rollout | None:
    """Return the rollout of a manifest; None if there is none, or if it cannot be searched.

    It cannot be searched if some old pods are not Ready, if the size changes, if new pods may preempt other pods, or if
    their only constraints are the defaults of the scheduler's configuration.
    """
    found = ground.find_rollout(manifest)
    if found is None or is_paused(manifest):
        return None
    owner, pods = found
    update, partition = read_rolling_update(manifest), read_partition(manifest)
    whole = all(pod.ready and pod.node in ground.settled.nodes.by_name for pod in pods)
    if not manifest.replicas or len(pods) != manifest.replicas or not whole:
        return None
    if update is not None:
        surge, unavailable, ordinals = update.surge, update.unavailable, [0] * len(pods)
    elif partition is not None:
        ordered = sorted((int(pod.name.rpartition("-")[2]), pod) for pod in pods)[partition:][::-1]
        pods, ordinals = [pod for _, pod in ordered], [ordinal for ordinal, _ in ordered]
        surge, unavailable = 0, 1
    else:
        return None
    made = {ordinal: ground.make_pod(owner, ordinal) for ordinal in set(ordinals)}
    new = _make_pods([made[ordinal] for ordinal in ordinals])
    if not new or has_lower_pods(new[0], ground.now) or (ground.profile.default_constraints and not new[0].spec.spread):
        return None
    return Rollout(
        view=ground.settled,
        old=tuple(pods),
        new=new,
        surge=surge,
        unavailable=unavailable,
        in_order=update is None,
        refuse=read_quotas(pods, new[0], ground.snapshot),
    )


def _make_pods(made: Sequence[Pod | Unpredictable]) -> tuple[Pod, ...]:
    """Return the new pods; none if one of them is not known."""
    known = [pod for pod in made if isinstance(pod, Pod)]
    return tuple(structs.replace(pod, uid=f"{pod.uid}{number}") for number, pod in enumerate(known)) * (
        len(known) == len(made)
    )


def _find_way(rollout: Rollout) -> _Way | None:
    """Return where a rollout wedges; None if no such path was found.

    With too many pods, only the first step is tried.
    """
    if len(rollout.new) > MOST_PODS:
        return _Way(rollout, rollout.start, always=True) if is_wedged(rollout.start, rollout) else None
    if is_certain(rollout):
        return None
    end = find_end(rollout)
    if end.complete:
        latest = max(end.wedged, key=lambda state: (len(state.placed), -len(state.left)))
        return _Way(rollout, latest, always=True)
    wedge = find_wedge(rollout).found
    return _Way(rollout, wedge, always=False) if wedge is not None else None


def _is_settled(manifest: Manifest, ground: Ground) -> bool:
    """Return whether nothing else could help: no other pending or terminating pod, and no other changing manifest.

    A terminating old pod could help if new pods have to be beside other pods, and so could the preemption of a pod.
    """
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    waiting = ground.snapshot.unplaced or any(pod.terminating for pod in ground.snapshot.pods)
    together = manifest.workload.template.spec.pod_affinity.required
    preempts = has_unknown_priority(manifest, ground)
    return not (waiting or together or preempts or ground.changing - {reference_of(manifest)})


def _wedges_without_ending(rollout: Rollout, ground: Ground) -> bool:
    """Return whether a rollout still wedges on every path after the pods that end by themselves have ended.

    Quotas are ignored then.
    """
    if ground.lasting is ground.settled:
        return True
    way = _find_way(replace(rollout, view=ground.lasting, refuse=lambda _, __: ""))
    return way is not None and way.always


def _describe(way: _Way) -> str:
    rollout, state = way.rollout, way.state
    done = f"{len(state.placed)} of {plural(len(rollout.new), 'new pod')}"
    when = f"wedges after at most {done}" if way.always else f"can wedge after {done}"
    if len(state.left) == len(rollout.new) and not state.placed:
        when = "does not begin"
    where = f", such as with these on {_name_nodes(state)}" if state.placed else ""
    left = plural(len(state.left), "old pod")
    verb = "stays" if len(state.left) == 1 else "stay"
    stay = f"{left} {verb}, since {_say_why_kept(rollout)}, and " if state.left else ""
    return f"the rollout {when}{where}: {stay}{_say_why_none(rollout, state)}"


def _say_why_kept(rollout: Rollout) -> str:
    if rollout.in_order:
        return "each goes once the pod before it is Ready"
    if not rollout.unavailable:
        return "none may be missing"
    return f"no more than {rollout.unavailable} may be missing"


def _name_nodes(state: State) -> str:
    """Name the nodes of new pods and how many new pods each has, the fullest node first."""
    counts = sorted(Counter(node for _, node in state.placed).items(), key=lambda one: (-one[1], one[0]))
    return name_list(f"{node} ({many})" if many > 1 else node for node, many in counts)


def _say_why_none(rollout: Rollout, state: State) -> str:
    """Say why no further new pod is created or placed: because of a quota, or because no node admits it."""
    pod = rollout.new[len(state.placed)]
    if refused := rollout.refuse(state.left, len(state.placed)):
        return refused
    nodes = state.view.nodes.names
    rejected = describe_rejections(len(nodes), count_rejections(reject_nodes(pod, state.view, nodes=nodes)))
    next_one = "another new one" if state.placed else "a new pod"
    return f"no node takes {pod.name if rollout.in_order else next_one}: {rejected}"
