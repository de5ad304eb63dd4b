"""Rebalancer: keeps Kubernetes workloads spread, counted as kube-scheduler counts.

The names in `__all__` are the library: what is violated in a snapshot of a cluster, and what is to be done about it.
`docs/library.md` has examples. Every other module and name may change with any release.

    snapshot = rebalancer.read_snapshot(data)
    evaluation = rebalancer.evaluate(snapshot, rebalancer.default_policy())
"""

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` would cost milliseconds
if TYPE_CHECKING:
    from rebalancer.adapters.files.encodings import UnreadableSnapshot
    from rebalancer.assessment.assess import Assessment
    from rebalancer.engine import Evaluation, evaluate
    from rebalancer.library import IncompleteSnapshot, read_plan, read_snapshot
    from rebalancer.model.moves import Memory, Reference
    from rebalancer.model.reasons import Reason, State
    from rebalancer.model.snapshot import Snapshot
    from rebalancer.planning.eviction import Eviction
    from rebalancer.planning.plan import Plan
    from rebalancer.planning.plan_file import write_plan
    from rebalancer.policy import Policy, PolicyError, default_policy, load_policy
    from rebalancer.scheduling.profile import Profile

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "Evaluation",
    "Eviction",
    "IncompleteSnapshot",
    "Memory",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Reason",
    "Reference",
    "Snapshot",
    "State",
    "UnreadableSnapshot",
    "default_policy",
    "evaluate",
    "load_policy",
    "read_plan",
    "read_snapshot",
    "write_plan",
]

_MODULES = {
    "Assessment": "assessment.assess",
    "Evaluation": "engine",
    "Eviction": "planning.eviction",
    "IncompleteSnapshot": "library",
    "Memory": "model.moves",
    "Plan": "planning.plan",
    "Policy": "policy",
    "PolicyError": "policy",
    "Profile": "scheduling.profile",
    "Reason": "model.reasons",
    "Reference": "model.moves",
    "Snapshot": "model.snapshot",
    "State": "model.reasons",
    "UnreadableSnapshot": "adapters.files.encodings",
    "default_policy": "policy",
    "evaluate": "engine",
    "load_policy": "policy",
    "read_plan": "library",
    "read_snapshot": "library",
    "write_plan": "planning.plan_file",
}
"""The module of each name, imported at the first use of the name, so that a command imports only what it needs."""

if not TYPE_CHECKING:  # a type checker would accept every name of a module with `__getattr__`

    def __getattr__(name: str) -> object:
        """Import a public name."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  # Ctrl-C may interrupt what is imported before a command

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names in addition to the module's own."""
        return sorted({*globals(), *__all__})
