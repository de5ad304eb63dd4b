"""Whether a drain of nodes ends: which pods a budget keeps on the nodes, and which pods find no other node."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rebalancer.assessment.controllers import find_reference
from rebalancer.lint.drain_order import count_allowed, play_orders
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground, reference_of
from rebalancer.lint.held_together import find_key_that_holds
from rebalancer.lint.manifest import ROOT, Manifest
from rebalancer.lint.not_whole import describe_most, describe_reason, find_not_whole
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.pods import LocalStorage, Pod, PodPhase
from rebalancer.model.words import name_list, plural
from rebalancer.resilience.loss import NODE_OWNERS, lose
from rebalancer.resilience.rows import Remaining, Verdict
from rebalancer.scheduling.view import View

_SEVERAL: Final = 2

_Found = tuple[Rule, Severity, str]


def check_drain(ground: Ground, nodes: Sequence[str], source: str) -> Iterator[Finding]:
    """Yield what prevents a drain of these nodes from ending.

    For objects in no manifest, the file of the finding is `source`, the name of the cluster.
    """
    view, there = ground.now, defaultdict[Reference, list[Pod]](list)
    for node in nodes:
        for pod in view.pods_on(node):
            if _is_drained(pod):
                there[find_reference(pod, view)].append(pod)
    manifests = {reference_of(one): one for one in ground.manifests.workloads}
    rows = find_not_whole(lose(view, frozenset(nodes), Phase.SILENT, drained=True), there) if nodes else {}
    short = {workload: row for workload, row in rows.items() if row.verdict is Verdict.NO}
    found = {workload: _find(pods, short.get(workload), nodes, view) for workload, pods in there.items()}
    said = [(workload, one) for workload, one in found.items() if one is not None]
    said += [(workload, one) for workload, pods in there.items() for one in _find_data(pods)]
    ending = {one: pods for one, pods in there.items() if not _never_ends(found[one])}
    for workload, (rule, severity, message) in (*said, *_find_order(ending, nodes, view)):
        yield Finding(
            rule=rule,
            severity=severity,
            manifest=manifests.get(workload) or _stub(workload, source),
            path=ROOT,
            message=f"drain of {name_list(nodes)}: {message}",
        )


def _never_ends(found: _Found | None) -> bool:
    return found is not None and found[0] is Rule.DRAIN_NEVER_ENDS


def _find_order(
    there: Mapping[Reference, Sequence[Pod]], nodes: Sequence[str], view: View
) -> Iterator[tuple[Reference, _Found]]:
    """Yield the workloads whose pods have to wait for pods of another workload, or that wait for each other."""
    orders = play_orders(view, nodes, there)
    stuck = [one for one in orders if one.staying and one.waiting]
    ends = next((one.order for one in orders if not one.staying), None)
    for workload, pods in stuck[0].staying.items() if stuck else ():
        (budget, *_) = view.snapshot.budget_selection.budgets_of(pods[0])
        waiting = name_list(dict.fromkeys(str(find_reference(pod, view)) for pod in stuck[0].waiting))
        kept = f"the budget {budget} keeps {plural(len(pods), 'pod')} of it while new pods of {waiting} wait for a node"
        if ends is not None:
            order = ", then ".join(map(str, ends))
            message = f"it ends where pods are evicted in the order {order}; in another one {kept}"
        else:
            message = f"it ends in no order that was played: {kept}"
        yield workload, (Rule.DRAIN_ORDER, Severity.WARNING, message)
    if not stuck:
        yield from _find_turns(there, view)


def _find_turns(there: Mapping[Reference, Sequence[Pod]], view: View) -> Iterator[tuple[Reference, _Found]]:
    """Yield the workloads with more pods on the nodes than their budget lets go at once."""
    counts = Counter[DisruptionBudget]()
    selection = view.snapshot.budget_selection
    for pods in there.values():
        counts.update(budget for pod in pods for budget in selection.budgets_of(pod) if pod.ready)
    for workload, pods in there.items():
        for budget in selection.budgets_of(pods[0]):
            allowed = count_allowed(budget, view)
            if 0 < allowed < counts[budget]:
                message = (
                    f"the budget {budget} lets {allowed} of {plural(counts[budget], 'pod')} there go at first; each "
                    "further one goes once a new pod is Ready elsewhere"
                )
                yield workload, (Rule.DRAIN_ORDER, Severity.INFO, message)


def _find_data(pods: Sequence[Pod]) -> Iterator[_Found]:
    """Yield that pods have emptyDir volumes, except those with `medium: Memory`.

    Source: `staging/src/k8s.io/kubectl/pkg/drain/filters.go` (localStorageFilter).
    """
    names = sorted({one.name for pod in pods for one in pod.local_volumes if one.kind is LocalStorage.EMPTY_DIR})
    number = sum(any(one.kind is LocalStorage.EMPTY_DIR for one in pod.local_volumes) for pod in pods)
    if number:
        have = "has an emptyDir volume" if number == 1 else "have emptyDir volumes"
        message = (
            f"{plural(number, 'pod')} there {have} ({name_list(names)}): kubectl drain refuses without "
            "--delete-emptydir-data, and with it their data is deleted"
        )
        yield Rule.DRAIN_DELETES_DATA, Severity.INFO, message


def _is_drained(pod: Pod) -> bool:
    """Return whether a drain evicts a pod.

    It does not evict pods of DaemonSets, static pods, and pods that end by themselves.
    """
    own = pod.owner is not None and pod.owner.kind in NODE_OWNERS
    return not (own or pod.mirror or pod.finished or pod.terminating)


def _find(pods: Sequence[Pod], row: Remaining | None, nodes: Sequence[str], view: View) -> _Found | None:
    """Return what happens to the pods of a workload on the nodes; None if all are evicted and come back."""
    number = plural(len(pods), "pod")
    # The API server evicts pending pods whatever budgets say. Source: `canIgnorePDB` of `core/pod/storage/eviction.go`.
    guarded = [pod for pod in pods if pod.phase is not PodPhase.PENDING]
    budgets = view.snapshot.budget_selection.budgets_of(guarded[0]) if guarded else ()
    if len(budgets) >= _SEVERAL:
        names = name_list(map(str, budgets))
        kept = f"the API server refuses the eviction of pods that two budgets select ({names})"
        return Rule.DRAIN_NEVER_ENDS, Severity.ERROR, f"{number} there: {kept}"
    for budget in budgets:
        if kept := _find_kept(guarded, budget, row, nodes, view):
            return Rule.DRAIN_NEVER_ENDS, Severity.ERROR, f"{number} there: the budget {budget} {kept}"
    if pods[0].owner is None:
        alone = f"{number} there that nobody creates anew: kubectl drain refuses without --force"
        return Rule.DRAIN_LEAVES_FEWER, Severity.WARNING, alone
    for budget in budgets:
        if kept := _find_kept_now(guarded, budget, view):
            return Rule.DRAIN_NEVER_ENDS, Severity.WARNING, f"{number} there: the budget {budget} {kept}"
    return (Rule.DRAIN_LEAVES_FEWER, Severity.WARNING, f"{number} there: {_without(row)}") if row is not None else None


def _find_kept(
    pods: Sequence[Pod], budget: DisruptionBudget, row: Remaining | None, nodes: Sequence[str], view: View
) -> str:
    """Return why a budget never lets one of the pods go; "" if it lets each of them go."""
    desired = budget.desired_of(budget.expected)
    if not (budget.expected and desired and _is_heeded(budget, pods, view)):
        return ""
    unready = sum(not pod.ready for pod in pods)
    may_heal = unready == len(pods) and len(view.snapshot.budget_selection.pods_of(budget)) - unready >= desired
    # Beside pods that a rollout added above the number that the budget expects, it may allow one.
    if desired >= budget.expected and _count_healthy(budget, view) <= desired and not may_heal:
        return f"keeps {desired} of {plural(budget.expected, 'pod')}, and never allows an eviction"
    # Right after the last eviction this many are healthy: all pods on other nodes.
    if row is not None and budget.expected == row.wanted and desired > row.possible:
        return f"keeps {desired} of {plural(row.wanted, 'pod')} healthy, and {_without(row)}"
    key = find_key_that_holds(pods[0], budget, nodes, view)
    if key is not None:
        return (
            f"keeps {desired} of {plural(budget.expected, 'pod')} healthy, and required podAffinity over {key} keeps "
            "new pods where these are until the last one is gone"
        )
    return ""


def _find_kept_now(pods: Sequence[Pod], budget: DisruptionBudget, view: View) -> str:
    """Return why a budget allows no eviction at the moment, because other pods of the budget are not Ready; else ""."""
    desired, healthy = budget.desired_of(budget.expected), _count_healthy(budget, view)
    if not desired or healthy > desired or not _is_heeded(budget, pods, view):
        return ""
    return (
        f"keeps {desired} of {plural(budget.expected, 'pod')} healthy, and {healthy} "
        f"{'is' if healthy == 1 else 'are'} now: it allows no eviction before another pod is Ready"
    )


def _is_heeded(budget: DisruptionBudget, pods: Sequence[Pod], view: View) -> bool:
    """Return whether the budget limits the eviction of the pods.

    It does if one of them is Ready. It does not limit unready pods if enough other pods are healthy, or if its
    unhealthyPodEvictionPolicy is AlwaysAllow.
    """
    is_whole = _count_healthy(budget, view) >= budget.desired_of(budget.expected)
    return not (budget.always_allow or is_whole) or any(pod.ready for pod in pods)


def _count_healthy(budget: DisruptionBudget, view: View) -> int:
    return sum(pod.ready and not pod.terminating for pod in view.snapshot.budget_selection.pods_of(budget))


def _without(row: Remaining) -> str:
    return f"without these nodes {describe_most(row)}{describe_reason(row)}"


def _stub(workload: Reference, source: str) -> Manifest:
    """Return a manifest that stands for an object of the cluster in findings."""
    kind, namespace, name = workload.kind, workload.namespace, workload.name
    return Manifest(file=source, kind=kind, namespace=namespace, name=name, value=None, find_line=lambda _: 1)
