"""The policy in force: the cluster policy, with what team policies add for their own namespaces.

The merge is monotone. Every limit, budget and eligibility rule of the cluster policy stays as it is. A team adds limits
on pods of its namespace, and budgets that apply besides the cluster's: the smallest budget decides. A field that would
loosen a rule has no effect, and a message says so. A namespace whose team policy cannot be read is left alone: the
policy may contain anything that the team forbids.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.policy.document import Policy
from rebalancer.policy.groups import Limit, LimitAction, PolicyGroup
from rebalancer.policy.names import NamespaceFilter
from rebalancer.policy.teams import NO_TEAM_RULES, TeamBudgets, TeamGroup, TeamPolicy, TeamRules

MOST_TEAMS: Final = 500
"""The most namespaces with a team policy: each costs a request every few seconds, and work in every cycle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamReading:
    """The last valid team policy of a namespace, if any, and the error of the newest version, if any."""

    policy: TeamPolicy | None
    problem: str = ""


UNREAD: Final = TeamReading(policy=None)
"""The state of a namespace whose team policy has not been read yet: there is no error, and nothing is evicted."""


class MergedPolicy(Policy):
    """A cluster policy with team policies: their groups are among `groups`, named `namespace/group`."""

    own: Policy
    """The cluster policy alone."""
    teams: dict[str, TeamRules]
    """The other rules, by namespace."""

    @property
    def cluster(self) -> Policy:
        """The cluster policy alone."""
        return self.own

    def rules_of(self, namespace: str) -> TeamRules:
        """Return what the team policy of a namespace adds, besides its groups."""
        return self.teams.get(namespace, NO_TEAM_RULES)

    def to_dict(self) -> dict[str, Any]:
        """Return the document in force, in JSON's types; no file has this form."""
        return self.model_dump(mode="json", by_alias=True, exclude={"own"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """The policy in force, and for each namespace which parts of its team policy are not in force, and why."""

    policy: Policy
    problems: Mapping[str, str]


def select_team_namespaces(policy: Policy, namespaces: Iterable[str], home: str) -> list[str]:
    """Return the namespaces that may have a team policy, sorted.

    `home` is the rebalancer's own namespace, where the ConfigMap of that name is the cluster policy.
    """
    return sorted(name for name in set(namespaces) if name != home and policy.team_policies.allows(name))


def merge(cluster: Policy, readings: Mapping[str, TeamReading]) -> Merged:
    """Combine a cluster policy with the team policies of the listed namespaces."""
    groups, rules, problems = list(cluster.groups), {}, {}
    for namespace, reading in sorted(readings.items()):
        if not cluster.team_policies.allows(namespace):
            continue
        faults = [reading.problem] if reading.problem else []
        if reading.policy is None:
            rules[namespace] = TeamRules(suspended=True)
        else:
            budgets, refused = _tighten(cluster, reading.policy.budgets)
            if budgets != TeamBudgets():
                rules[namespace] = TeamRules(budgets=budgets)
            added, left_out = _adopt_groups(cluster, namespace, reading.policy.groups)
            groups += added
            faults += [*refused, *left_out]
        if faults:
            problems[namespace] = "; ".join(faults)
    if not rules and len(groups) == len(cluster.groups):
        return Merged(policy=cluster, problems=problems)
    fields = {name: getattr(cluster, name) for name in Policy.model_fields}
    fields |= {"groups": tuple(groups), "own": cluster, "teams": rules}
    return Merged(policy=MergedPolicy(**fields), problems=problems)


def _tighten(cluster: Policy, wanted: TeamBudgets) -> tuple[TeamBudgets, list[str]]:
    """Return the budgets of a team without those larger than the cluster's, and a message for each of these.

    A number and a percentage can be compared for a given workload only; there, the smaller one decides.
    """
    amounts, refused = {}, []
    for name, field in TeamBudgets.model_fields.items():
        amount, bound = getattr(wanted, name), getattr(cluster.budgets, name)
        if amount is not None and amount.percent == bound.percent and amount.value > bound.value:
            refused.append(
                f"budgets.{field.alias}: found {amount}; the cluster policy's {bound} stays in force, "
                f"expected at most {bound}"
            )
        else:
            amounts[name] = amount
    return TeamBudgets(**amounts), refused


def _adopt_groups(cluster: Policy, namespace: str, groups: Iterable[TeamGroup]) -> tuple[list[PolicyGroup], list[str]]:
    """Return a team's groups for its namespace alone, and a message for each value that the cluster policy refuses."""
    zone_keys = {ZONE, *(group.zone_key for group in cluster.groups)}
    adopted, messages = [], []
    for index, group in enumerate(groups):
        path = f"groups[{index}]"
        if group.zone_key not in zone_keys:  # zones are stored for each key, for all teams in one bounded document
            expected = " or ".join(sorted(zone_keys))
            messages.append(f"{path}.zoneKey: found {group.zone_key}; the group is not in force, expected {expected}")
            continue
        keys, known = group.resilience.keys or (), find_loss_keys(cluster)
        if not known.issuperset(keys):  # each costs the cluster as much as all the others
            messages.append(
                f"{path}.resilience.keys: found {', '.join(keys)}; the group is not in force, expected some of "
                f"{', '.join(sorted(known)) or 'the keys of resilience in the cluster policy, which has none'}"
            )
            continue
        phases, lost = group.resilience.phases or (), find_loss_phases(cluster)
        if not lost.issuperset(phases):
            messages.append(
                f"{path}.resilience.phases: found {', '.join(phases)}; the group is not in force, expected some of "
                f"{', '.join(sorted(lost))}"
            )
            continue
        limits = group.limits
        if not cluster.team_policies.allows_evict(namespace):
            messages += _list_evicting(path, limits)
            limits = tuple(limit.model_copy(update={"action": LimitAction.ALERT}) for limit in limits)
        fields = {name: getattr(group, name) for name in PolicyGroup.model_fields}
        # No group of the cluster policy can have this name, since no name has a slash.
        changes = {
            "name": f"{namespace}/{group.name}",
            "namespaces": NamespaceFilter(include=(namespace,)),
            "limits": limits,
        }
        adopted.append(PolicyGroup.model_construct(**{**fields, **changes}))
    return adopted, messages


def find_loss_keys(policy: Policy) -> frozenset[str]:
    """Return the topology keys whose domains are lost in turn, for all workloads or for a group."""
    return frozenset(policy.resilience.keys).union(*(group.resilience.keys or () for group in policy.groups))


def find_loss_phases(policy: Policy) -> frozenset[Phase]:
    """Return the phases of the losses, for all workloads or for a group."""
    return frozenset(policy.resilience.phases).union(*(group.resilience.phases or () for group in policy.groups))


def _list_evicting(path: str, limits: Iterable[Limit]) -> Iterator[str]:
    for index, limit in enumerate(limits):
        if limit.action is LimitAction.EVICT:
            yield (
                f"{path}.limits[{index}].action: found Evict; Alert is in force, expected Alert, or the namespace in "
                "teamPolicies.evict of the cluster policy"
            )
