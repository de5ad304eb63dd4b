"""The policy: what the rebalancer may do, as one immutable `Policy` that is read strictly from one file.

A policy has only fields with an effect. A field that were accepted and ignored could lead to evictions that its author
meant to forbid, so an unknown field is an error, with its line and the nearest known name.

`loader` reads bytes, `document` is the policy as a whole, `sections` its parts, and one module each holds the small
types (`durations`, `amounts`, `selectors`, `names`, `shares`, `conditions`, `windows`, `breaker`).
"""

from rebalancer.policy.amounts import Amount
from rebalancer.policy.breaker import Breaker, Percentage
from rebalancer.policy.conditions import Condition
from rebalancer.policy.document import API_VERSION, KIND, Policy, default_policy
from rebalancer.policy.durations import format_duration, parse_duration
from rebalancer.policy.groups import WORKLOAD, Basis, Disruption, Limit, LimitAction, PolicyGroup, Severity, When
from rebalancer.policy.loader import load_policy
from rebalancer.policy.modes import Mode
from rebalancer.policy.names import NamespaceFilter, Owner
from rebalancer.policy.problems import PolicyError, Problem
from rebalancer.policy.schema import json_schema
from rebalancer.policy.sections import Budgets, Eligibility, EligibleNamespaces, Nodes, Scheduler, Spread
from rebalancer.policy.selectors import Selector, parse_label_key
from rebalancer.policy.shares import Share
from rebalancer.policy.windows import Window

__all__ = [
    "API_VERSION",
    "KIND",
    "WORKLOAD",
    "Amount",
    "Basis",
    "Breaker",
    "Budgets",
    "Condition",
    "Disruption",
    "Eligibility",
    "EligibleNamespaces",
    "Limit",
    "LimitAction",
    "Mode",
    "NamespaceFilter",
    "Nodes",
    "Owner",
    "Percentage",
    "Policy",
    "PolicyError",
    "PolicyGroup",
    "Problem",
    "Scheduler",
    "Selector",
    "Severity",
    "Share",
    "Spread",
    "When",
    "Window",
    "default_policy",
    "format_duration",
    "json_schema",
    "load_policy",
    "parse_duration",
    "parse_label_key",
]
