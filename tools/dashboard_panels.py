"""What the dashboard shows: panels and their queries, as data.

Every query aggregates without the replica, since only the leader exports the state of the cluster. The pods by domain
come from the recording rules of `rules.yaml` over kube-state-metrics; the controller itself exports a limit's largest
share and the worst domain.

Missing series are shown as missing, never as 0: a stopped controller has repaired nothing. Series of a cluster count
once, whichever replica exports them, and are summed over the selected clusters.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CLUSTER: Final = 'cluster=~"$cluster"'
_WHERE: Final = f'{_CLUSTER},namespace=~"$namespace"'
_LIMIT: Final = "cluster, group, limit, namespace, key, topology_key"
_LIMIT_TEXT: Final = "{{cluster}} {{group}}/{{limit}} {{namespace}}/{{key}}"
_WORKLOAD: Final = "cluster, namespace, workload_kind, workload, topology_key"
_NOUGHT: Final = f"0 * max(rebalancer_leader{{{_CLUSTER}}} == 1)"
"""0 where a replica leads, so that no series means none; no value otherwise."""
_FALLBACK: Final = "namespace_key_node:rebalancer_fallback_pods:count"
_FALLBACK_ZONE: Final = "namespace_key_zone:rebalancer_fallback_pods:sum"


class Form(StrEnum):
    """How a panel shows its series."""

    NUMBER = "number"
    LINES = "lines"
    TABLE = "table"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query, and the name of each of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel. `unit` is Grafana's name of one; `width` is in 24ths of the page."""

    title: str
    about: str
    queries: tuple[Query, ...]
    form: Form = Form.LINES
    unit: str = "short"
    width: int = 8


def _number(title: str, about: str, expr: str, unit: str = "short") -> Panel:
    return Panel(title=title, about=about, queries=(Query(expr=expr),), form=Form.NUMBER, unit=unit, width=4)


def _total(name: str) -> str:
    """Return the query for a number of each cluster, added up."""
    return f"sum(max by (cluster) ({name}{{{_CLUSTER}}}))"


_NOW: Final = (
    _number(
        "Limits violated",
        "Share limits that are violated, whether they can be repaired now or not.",
        f'count(max by ({_LIMIT}) (rebalancer_limit_state{{{_WHERE},state!="Satisfied"}}) == 1) or {_NOUGHT}',
    ),
    _number(
        "Constraints violated",
        "Hard topology spread constraints that are violated.",
        f"count(max by ({_WORKLOAD})"
        f' (rebalancer_constraint_state{{{_WHERE},state!="Satisfied",when_unsatisfiable="DoNotSchedule"}}) == 1)'
        f" or {_NOUGHT}",
    ),
    _number("Evictions planned", "Of the last plan of each cluster.", _total("rebalancer_planned_evictions")),
    _number("In flight", "Evicted pods without a Ready replacement.", _total("rebalancer_in_flight")),
    _number(
        "Leaders",
        "One in each cluster; without a leader nothing is evaluated.",
        f"sum(max by (cluster, instance) (rebalancer_leader{{{_CLUSTER}}}))",
    ),
    _number(
        "Last cycle",
        "Time since the end of the last cycle, of the cluster where it is longest.",
        f"time() - min(max by (cluster) (rebalancer_last_cycle_timestamp_seconds{{{_CLUSTER}}}))",
        "s",
    ),
)
_SPREAD: Final = (
    Panel(
        title="Largest share by limit",
        about="The share of a limit's pods that its fullest domain holds; the 20 largest.",
        queries=(
            Query(
                expr=f"topk(20, max by ({_LIMIT}) (rebalancer_limit_share_ratio{{{_WHERE}}}))",
                legend=f"{_LIMIT_TEXT} ({{{{topology_key}}}})",
            ),
        ),
        unit="percentunit",
        width=12,
    ),
    Panel(
        title="Headroom by limit",
        about="Pods until the worst domain violates the limit; negative where it is violated. The 20 smallest.",
        queries=(
            Query(
                expr=f"bottomk(20, min by ({_LIMIT}) (rebalancer_limit_headroom{{{_WHERE}}}))",
                legend=f"{_LIMIT_TEXT} ({{{{topology_key}}}})",
            ),
        ),
        width=12,
    ),
    Panel(
        title="Worst domains",
        about="The domain that violates each limit (the emptiest for minPods), and the share of the fullest.",
        queries=(
            Query(
                expr=f"max by ({_LIMIT}, domain) (rebalancer_limit_worst_domain{{{_WHERE}}})"
                f" * on ({_LIMIT}) group_left () max by ({_LIMIT}) (rebalancer_limit_share_ratio{{{_WHERE}}})",
            ),
        ),
        form=Form.TABLE,
        unit="percentunit",
        width=24,
    ),
    Panel(
        title="Shares by zone",
        about="The share of each zone in the pods of a workload or instance, by kube-state-metrics; the 30 largest.",
        queries=(
            Query(
                expr=f"topk(30, max by (cluster, group, namespace, key, label_topology_kubernetes_io_zone)"
                f" ({_FALLBACK_ZONE}{{{_WHERE}}})"
                " / on (cluster, group, namespace, key) group_left () sum by (cluster, group, namespace, key)"
                f" ({_FALLBACK}{{{_WHERE}}}))",
                legend="{{cluster}} {{namespace}}/{{key}} {{label_topology_kubernetes_io_zone}}",
            ),
        ),
        unit="percentunit",
    ),
    Panel(
        title="Shares by node",
        about="The share of each node in these pods, where there are four or more; the 30 largest.",
        queries=(
            Query(
                expr=f'topk(30, max by (cluster, group, namespace, key, node) ({_FALLBACK}{{{_WHERE},node!=""}})'
                " / on (cluster, group, namespace, key) group_left () (sum by (cluster, group, namespace, key)"
                f" ({_FALLBACK}{{{_WHERE}}}) >= 4))",
                legend="{{cluster}} {{namespace}}/{{key}} {{node}}",
            ),
        ),
        unit="percentunit",
    ),
    Panel(
        title="Skew above maxSkew",
        about="Skew minus maxSkew; zero or less satisfies the constraint. The 20 largest.",
        queries=(
            Query(
                expr=f"topk(20, max by ({_WORKLOAD}, when_unsatisfiable) (rebalancer_constraint_skew{{{_WHERE}}})"
                f" - max by ({_WORKLOAD}, when_unsatisfiable) (rebalancer_constraint_max_skew{{{_WHERE}}}))",
                legend="{{cluster}} {{namespace}}/{{workload}} {{topology_key}} {{when_unsatisfiable}}",
            ),
        ),
    ),
)
_REPAIR: Final = (
    Panel(
        title="Planned evictions and proved minimum",
        about="Evictions of the last plan, and the proved minimum. They differ where the minimum is not proved.",
        queries=(
            Query(expr=_total("rebalancer_planned_evictions"), legend="planned"),
            Query(expr=_total("rebalancer_minimum_evictions"), legend="proven minimum"),
            Query(expr=_total("rebalancer_in_flight"), legend="in flight"),
        ),
    ),
    Panel(
        title="Evictions",
        about="Eviction requests by result.",
        queries=(
            Query(
                expr=f"sum by (result) (increase(rebalancer_evictions_total{{{_CLUSTER}}}[$__rate_interval]))",
                legend="{{result}}",
            ),
        ),
    ),
    Panel(
        title="Moves",
        about="Moves that ended, by outcome of the replacement.",
        queries=(
            Query(
                expr=f"sum by (outcome) (increase(rebalancer_moves_total{{{_CLUSTER}}}[$__rate_interval]))",
                legend="{{outcome}}",
            ),
        ),
    ),
    Panel(
        title="Refusals",
        about="Evictions that the last cycle refused or delayed, by reason.",
        queries=(
            Query(
                expr=f"sum by (reason) (max by (cluster, reason) (rebalancer_refusals{{{_CLUSTER}}})) > 0 or {_NOUGHT}",
                legend="{{reason}}",
            ),
        ),
        width=12,
    ),
    Panel(
        title="Evictions by workload",
        about="Evicted pods by workload and reason; the 20 largest. 0 where evictions are only planned.",
        queries=(
            Query(
                expr="topk(20, sum by (cluster, namespace, workload_kind, workload, reason)"
                f" (increase(rebalancer_workload_evictions_total{{{_WHERE}}}[$__rate_interval])))",
                legend="{{cluster}} {{namespace}}/{{workload}} ({{workload_kind}}) {{reason}}",
            ),
        ),
        width=12,
    ),
)
_HEALTH: Final = (
    Panel(
        title="Mode",
        about="The mode that each replica has in force.",
        queries=(Query(expr=f"max by (mode) (rebalancer_mode{{{_CLUSTER}}})", legend="{{mode}}"),),
        width=6,
    ),
    Panel(
        title="Policy",
        about="1 where the newest policy is in force, 0 where it was refused.",
        queries=(
            Query(expr=f"min(rebalancer_policy_last_reload_successful{{{_CLUSTER}}})", legend="newest policy in force"),
        ),
        width=6,
    ),
    Panel(
        title="Age of the watches",
        about="Time since the objects of a kind were last known, by a message of the watch or by a list.",
        queries=(Query(expr=f"max by (kind) (rebalancer_watch_age_seconds{{{_CLUSTER}}})", legend="{{kind}}"),),
        unit="s",
        width=6,
    ),
    Panel(
        title="Objects known",
        about="By kind.",
        queries=(
            Query(
                expr=f"sum by (kind) (max by (cluster, kind) (rebalancer_cache_objects{{{_CLUSTER}}}))",
                legend="{{kind}}",
            ),
        ),
        width=6,
    ),
    Panel(
        title="Duration of the phases",
        about="Mean duration of each phase of a cycle.",
        queries=(
            Query(
                expr=f"sum by (phase) (rate(rebalancer_cycle_duration_seconds_sum{{{_CLUSTER}}}[$__rate_interval]))"
                f" / (sum by (phase) (rate(rebalancer_cycle_duration_seconds_count{{{_CLUSTER}}}[$__rate_interval]))"
                " > 0)",
                legend="{{phase}}",
            ),
        ),
        unit="s",
    ),
    Panel(
        title="Requests to the API server",
        about="By verb and code; code 0 means no answer.",
        queries=(
            Query(
                expr=f"sum by (verb, code) (rate(rebalancer_api_requests_total{{{_CLUSTER}}}[$__rate_interval]))",
                legend="{{verb}} {{code}}",
            ),
        ),
        unit="reqps",
    ),
    Panel(
        title="Memory",
        about="Of each replica.",
        queries=(
            Query(
                expr="max by (instance) (process_resident_memory_bytes"
                f" and on (instance) rebalancer_build_info{{{_CLUSTER}}})",
                legend="{{instance}}",
            ),
        ),
        unit="bytes",
    ),
)
_APART: Final = (
    Panel(
        title="Anti-affinity violated",
        about="Pods that would have to move at least, by the worst required term of a workload. The 20 largest.",
        queries=(
            Query(
                expr=f"topk(20, max by ({_WORKLOAD}) (rebalancer_anti_affinity_violations{{{_WHERE}}}))",
                legend="{{cluster}} {{namespace}}/{{workload}} {{topology_key}}",
            ),
        ),
    ),
)
ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    ("Now", _NOW),
    ("How pods are spread", _SPREAD),
    ("Repairs", _REPAIR),
    ("Health of the controller", _HEALTH),
    ("Anti-affinity", _APART),
)
