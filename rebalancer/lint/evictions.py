"""How many evictions it takes until today's pods satisfy what is deployed.

A new limit of a policy starts no rollout: the pods stay where they are, and the planner proves how many have to move. A
constraint is part of the template: its rollout places all pods again, except those that the update strategy keeps.
"""

from collections.abc import Iterator, Sequence

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.engine import evaluate
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import ROOT, Manifest, Path
from rebalancer.lint.strategy import count_kept_back
from rebalancer.model.reasons import State
from rebalancer.model.words import name_list, plural
from rebalancer.planning.plan import ComponentPlan
from rebalancer.policy import Policy, is_team_policy
from rebalancer.policy.team_maps import POLICY_KEY, POLICY_MAP


def check_evictions(ground: Ground, policy: Policy | None) -> Iterator[Finding]:
    """Yield what today's pods violate: limits of the policy, and constraints that differ from those in the cluster.

    If the policy is among the manifests, all workloads are checked, and the finding is at the policy's ConfigMap.
    Otherwise only manifests that change no pod are checked.
    """
    maps = [*filter(_is_policy, ground.manifests.every)]
    there = {ref: one for ref, one in ground.by_workload.items() if ref not in ground.changing}
    if policy is not None and (maps or there):
        only = None if maps else there.keys()
        plan = evaluate(ground.snapshot, policy, profile=ground.profile, only=only).plan
        repairs = [one for one in plan.components if one.lower_bound and _find_violated(one)]
        if maps and repairs:
            yield _find_evictions(maps[0], repairs)
        for one in () if maps else repairs:
            yield _find_evictions(next(there[ref] for ref in one.workloads if ref in there), [one])
    for manifest in ground.manifests.workloads:
        yield from _check_rollout(manifest, ground)


def _is_policy(manifest: Manifest) -> bool:
    """Return whether a manifest is the ConfigMap of the cluster policy; a team policy is not."""
    text = manifest.find(("data", POLICY_KEY))
    named = (manifest.kind, manifest.name) == ("ConfigMap", POLICY_MAP)
    return named and isinstance(text, str) and not is_team_policy(text.encode())


def _find_violated(plan: ComponentPlan) -> Sequence[EvaluatedLimit]:
    """Return the violated limits that some placement satisfies; another rule reports the other limits."""
    return [row for row in plan.limits if row.state is State.VIOLATED] if plan.state is State.VIOLATED else []


def _find_evictions(manifest: Manifest, repairs: Sequence[ComponentPlan]) -> Finding:
    pods, is_proved = sum(one.lower_bound for one in repairs), all(one.optimal for one in repairs)
    limits = dict.fromkeys(f"{row.group}/{row.limit}" for one in repairs for row in _find_violated(one))
    workloads = dict.fromkeys(ref for one in repairs for ref in one.workloads)
    number = f"{plural(pods, 'eviction')} (proved minimum)" if is_proved else f"at least {plural(pods, 'eviction')}"
    return _make(
        manifest,
        ROOT,
        f"the policy starts no rollout: it takes {number} until the pods of today in "
        f"{name_list(map(str, workloads))} keep {name_list(f'limit {limit}' for limit in limits)}",
        {"evictions": pods},
    )


def _check_rollout(manifest: Manifest, ground: Ground) -> Iterator[Finding]:
    """Yield a manifest whose placement rules differ from those of the live workload."""
    rollout, live = ground.find_rollout(manifest), ground.find_live(manifest)
    if rollout is None or not rollout[1] or live is None or manifest.template is None:
        return
    new, old = rollout[0].template, live.template
    assert new is not None
    if old is None or (new.spec.spread, new.spec.pod_affinity) == (old.spec.spread, old.spec.pod_affinity):
        return
    pods, kept = len(rollout[1]), count_kept_back(manifest, len(rollout[1]))
    fate = f"its rollout places {plural(pods, 'pod')} anew, and takes no eviction"
    if kept:
        fate = (
            f"updateStrategy keeps back {kept} of {plural(pods, 'pod')}: "
            f"{plural(kept, 'deletion')} until all have the new ones"
        )
    path = (*manifest.template, "spec")
    yield _make(manifest, path, f"its constraints are not those of the live workload: {fate}", {"evictions": 0})


def _make(manifest: Manifest, path: Path, message: str, numbers: dict[str, int]) -> Finding:
    return Finding(
        rule=Rule.TAKES_EVICTIONS,
        severity=Severity.INFO,
        manifest=manifest,
        path=path,
        message=message,
        numbers=numbers,
    )
