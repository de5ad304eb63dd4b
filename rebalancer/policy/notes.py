"""Notes about fields that a policy lacks although its author probably relies on them. They are no errors."""

from collections.abc import Iterator
from typing import Final

from rebalancer.policy.document import Policy, default_policy

_SYSTEM: Final = "kube-system"


def policy_notes(policy: Policy) -> tuple[str, ...]:
    """Return a sentence for each default that the policy loses without naming it, and how to keep the default."""
    return (*_dropped_limits(policy), *_dropped_namespace(policy))


def _dropped_limits(policy: Policy) -> Iterator[str]:
    if not policy.groups and "groups" not in policy.model_fields_set:
        names = [limit.name for group in default_policy().groups for limit in group.limits]
        yield (
            f"the policy has no groups, so the limits {' and '.join(names)} of the shipped policy are not in force; "
            "copy groups from `rebalancer policy show`, or write groups: [] if no limits are wanted"
        )


def _dropped_namespace(policy: Policy) -> Iterator[str]:
    namespaces = policy.eligibility.namespaces
    named = _SYSTEM in namespaces.include or not namespaces.exclude
    if namespaces.selects(_SYSTEM) and not named:
        yield (
            f"eligibility.namespaces.exclude replaces its default [{_SYSTEM}]: pods of {_SYSTEM} may be evicted; add "
            f"{_SYSTEM} to it"
        )
