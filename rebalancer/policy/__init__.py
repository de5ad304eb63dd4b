"""The policy: what the rebalancer may do, as one immutable `Policy` that is read strictly from one file.

A policy has only fields with an effect. If an unknown field were ignored, it could lead to evictions that its author
meant to forbid. So it is an error, with its line and the nearest known name.

`loader` reads bytes, `document` is the policy as a whole, and `sections` are its parts. `teams` is the policy of a
team, `merging` combines it with the cluster policy, and `notes` describes what it leaves out. One module each holds the
small types (`durations`, `amounts`, `selectors`, `names`, `shares`, `conditions`, `windows`, `breaker`, `topology`,
`capacity`, `guards`).
"""

from rebalancer.model.modes import Mode
from rebalancer.policy.amounts import Amount
from rebalancer.policy.breaker import Breaker, Percentage
from rebalancer.policy.capacity import Capacity, CapacityMode
from rebalancer.policy.conditions import Condition
from rebalancer.policy.document import API_VERSION, KIND, Policy, default_policy
from rebalancer.policy.durations import parse_duration
from rebalancer.policy.groups import WORKLOAD, Basis, Disruption, Limit, LimitAction, PolicyGroup, Severity, When
from rebalancer.policy.guards import Expect, Guard, Guards, Prometheus
from rebalancer.policy.loader import is_team_policy, load_policy, load_team_policy
from rebalancer.policy.merging import Merged, MergedPolicy, TeamReading, merge, select_team_namespaces
from rebalancer.policy.names import NamespaceFilter, Owner
from rebalancer.policy.notes import policy_notes
from rebalancer.policy.prevention import Prevention, ScaleDownPrevention
from rebalancer.policy.problems import PolicyError, PolicyProblem
from rebalancer.policy.repair import RepairBy, RepairMethod
from rebalancer.policy.resilience import Required, Resilience
from rebalancer.policy.schema import json_schema, team_json_schema
from rebalancer.policy.sections import (
    AntiAffinity,
    Budgets,
    Eligibility,
    EligibleNamespaces,
    Nodes,
    Permission,
    Scheduler,
    Spread,
)
from rebalancer.policy.selectors import Selector, parse_label_key
from rebalancer.policy.shares import Share
from rebalancer.policy.teams import NO_TEAM_POLICY, TeamBudgets, TeamPolicies, TeamPolicy, TeamRules
from rebalancer.policy.topology import Topology
from rebalancer.policy.windows import Window

__all__ = [
    "API_VERSION",
    "KIND",
    "NO_TEAM_POLICY",
    "WORKLOAD",
    "Amount",
    "AntiAffinity",
    "Basis",
    "Breaker",
    "Budgets",
    "Capacity",
    "CapacityMode",
    "Condition",
    "Disruption",
    "Eligibility",
    "EligibleNamespaces",
    "Expect",
    "Guard",
    "Guards",
    "Limit",
    "LimitAction",
    "Merged",
    "MergedPolicy",
    "Mode",
    "NamespaceFilter",
    "Nodes",
    "Owner",
    "Percentage",
    "Permission",
    "Policy",
    "PolicyError",
    "PolicyGroup",
    "PolicyProblem",
    "Prevention",
    "Prometheus",
    "RepairBy",
    "RepairMethod",
    "Required",
    "Resilience",
    "ScaleDownPrevention",
    "Scheduler",
    "Selector",
    "Severity",
    "Share",
    "Spread",
    "TeamBudgets",
    "TeamPolicies",
    "TeamPolicy",
    "TeamReading",
    "TeamRules",
    "Topology",
    "When",
    "Window",
    "default_policy",
    "is_team_policy",
    "json_schema",
    "load_policy",
    "load_team_policy",
    "merge",
    "parse_duration",
    "parse_label_key",
    "policy_notes",
    "select_team_namespaces",
    "team_json_schema",
]
