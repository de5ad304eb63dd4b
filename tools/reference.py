"""Generate the parts of the pages that follow from the code: `python -m tools.reference` writes, tests compare.

A page holds generated parts between `<!-- generated: NAME -->` and `<!-- end: NAME -->`; the rest is written by hand.
Some files are written whole: the schemas in `config/`, two files of `deploy/monitoring/`, the copy of the policy in
`deploy/base/`, and files of the chart that follow from others. `make docs` runs it.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rebalancer.checks.document import CheckDocument
from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS
from rebalancer.controller.telemetry import METRICS
from rebalancer.documents.document import document_schema
from rebalancer.documents.explanation import ExplanationDocument
from rebalancer.documents.history import HistoryDocument, TrendDocument
from rebalancer.documents.map import MapDocument
from rebalancer.documents.page import PageDocument
from rebalancer.documents.plan import PlanDocument
from rebalancer.documents.prediction import PredictionDocument
from rebalancer.documents.report import ReportDocument
from rebalancer.documents.resilience import ResilienceDocument
from rebalancer.documents.simulation import SimulationDocument
from rebalancer.documents.status import StatusDocument
from rebalancer.lint.document import LintDocument
from rebalancer.lint.finding import Rule
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.moves import MoveState
from rebalancer.model.nodes import DRAINING, LEAVING_TAINTS, UNSERVICEABLE_CONDITIONS, UNSERVICEABLE_TAINTS
from rebalancer.model.reasons import Cause, FindingKind, Reason, State, ViolationCause
from rebalancer.policy import Share, json_schema, team_json_schema
from rebalancer.settings import Settings, flag_of, variable_of
from rebalancer.surge.record import TRANSITIONS as SURGE_TRANSITIONS
from rebalancer.surge.record import Phase
from rebalancer.tracking.moves import TRANSITIONS
from tools.chart import chart_files, value_rows
from tools.dashboard import dashboard_text
from tools.default_policy import policy_files
from tools.monitoring import MONITORING, alert_rows, prometheus_rule
from tools.tracer import drawing

ROOT: Final = Path(__file__).resolve().parents[1]
COMMAND: Final = "make docs"
"""Renews everything that is stale; messages name it."""

DOCUMENTS: Final[Mapping[str, type[Struct]]] = {
    "plan": PlanDocument,
    "report": ReportDocument,
    "status": StatusDocument,
    "prediction": PredictionDocument,
    "explanation": ExplanationDocument,
    "resilience": ResilienceDocument,
    "simulation": SimulationDocument,
    "page": PageDocument,
    "map": MapDocument,
    "history": HistoryDocument,
    "trend": TrendDocument,
    "check": CheckDocument,
    "lint": LintDocument,
}
"""The documents that scripts may rely on, by the name of their schema."""

STATES: Final[Mapping[State, str]] = {
    State.SATISFIED: "The constraint or limit is satisfied.",
    State.VIOLATED: "It is violated, and can be repaired; the reason, if any, says what the repair waits for.",
    State.INFEASIBLE: "No placement of these pods over these domains can satisfy it.",
    State.UNFIXABLE: "A placement exists that satisfies it, but no eviction leads there now.",
    State.UNKNOWN: "Of a report: no node that was read takes such pods and has the key, so nothing was counted.",
}
CAUSES: Final[Mapping[Cause, str]] = {
    Cause.SKEW_VIOLATED: "A spread constraint is violated: a hard one, or a soft one that `spread.actOn` lists.",
    Cause.SHARE_LIMIT_VIOLATED: "A limit with `action: Evict` is violated.",
    Cause.ANTI_AFFINITY_VIOLATED: "Pods share a domain although required podAntiAffinity keeps them apart.",
    Cause.PLACEMENT_DEADLOCK: "The rules of a pending pod exclude each other; the eviction frees a node for it.",
}
ADVICE: Final[Mapping[Reason, str]] = {
    Reason.NODES_REJECT: "Remove what rejects the pods: add a toleration, free the port, widen the affinity.",
    Reason.AWAITING_CAPACITY: "Wait; without `capacity.mode: Request`, add nodes.",
    Reason.UNREACHABLE: "Add capacity, or relax the constraint or limit.",
    Reason.NOT_PREDICTABLE: "Move the pods by hand, or stop using the feature that the message names.",
    Reason.BLOCKED_BY_BUDGET: "Make the pods of the workload Ready, or change a budget that is always 0.",
    Reason.GROUP_IN_FLIGHT: "Wait. If a pod stays Pending, `kubectl describe pod` says why.",
    Reason.EVICTED_BY_OTHERS: "Finish the drain, or let only one program evict.",
    Reason.EXCLUDED: "Nothing, if that is intended. `spread.actOn` must list the kind of a violated constraint.",
    Reason.NOT_EVICTABLE: "Nothing: no setting allows it.",
    Reason.LOCAL_STORAGE: "Allow it in `eligibility.localStorage`, if the data may be lost.",
    Reason.UNKNOWN_OWNER: "Add its kind to `eligibility.owners`, if its controller replaces pods.",
    Reason.OTHER_SCHEDULER: "Set `scheduler.name`, if that scheduler places pods as kube-scheduler does.",
    Reason.PRIORITY_TOO_HIGH: "Raise `eligibility.priorityBelow`, if such pods may be evicted.",
    Reason.TOO_YOUNG: "Wait.",
    Reason.ARRIVING: "Wait.",
    Reason.STARTING: "Wait, or fix what keeps the pod from becoming Ready.",
    Reason.TOO_FEW_REPLICAS: "Add replicas, or lower `eligibility.minReplicas` and accept that none runs for a moment.",
    Reason.POD_GROUP_DISRUPTION: "Move the PodGroup by hand.",
    Reason.ROLLOUT_IN_PROGRESS: "Finish, undo or resume the rollout.",
    Reason.CANNOT_CREATE: "Fix what the message names, such as a quota.",
    Reason.NODE_LEAVING: "Wait for the drain or the repair of the node, or uncordon it.",
    Reason.NODE_SETTLING: "Wait, or repair the node that the message names.",
    Reason.DOMAIN_UNSETTLED: "Finish the drain, or bring the nodes back.",
    Reason.SURGING: "Wait.",
    Reason.PLACEMENT_DEADLOCK: "Nothing in mode Evict. Else delete a pod of the group where the pending one could run.",
    Reason.OBSERVE_ONLY: "Set `mode: Evict` or `Approve`, and grant the right to evict.",
    Reason.PAUSED: "`rebalancer resume`, after asking who paused it.",
    Reason.OUTSIDE_WINDOW: "Wait, or change `windows`.",
    Reason.AWAITING_APPROVAL: "`rebalancer approve`.",
    Reason.NOT_PERSISTENT: "Wait.",
    Reason.RATE_LIMITED: "Wait, or raise the budget that the message names.",
    Reason.SLOW_START: "Wait; repair the overdue replacement.",
    Reason.AWAITING_CANARY: "Wait.",
    Reason.AWAITING_GUARDS: "Repair the application, or the query.",
    Reason.BACK_OFF: "Find out why the new pod is not where it was predicted, or move a pod by hand.",
    Reason.REFUSED_BY_ADMISSION: "Ask the owner of the webhook or policy; the request is repeated.",
    Reason.BREAKER_OPEN: "Repair the cluster.",
    Reason.STALE_DATA: "Check the API server and the controller's rights to watch.",
    Reason.MEMORY_NOT_SAVED: "Apply the installation again, or fix what refuses to write ConfigMap rebalancer-status.",
    Reason.FORBIDDEN: "Apply `deploy/components/evict-rights/cluster-role.yaml`, or `deploy/namespace` there.",
}
"""What to do about a reason, where the reason has no remedy of its own."""
EVENTS: Final[Mapping[EventReason, str]] = {
    EventReason.SKEW_VIOLATED: "A hard constraint of the workload became violated; on the workload.",
    EventReason.SKEW_RECOVERED: "All its hard constraints are satisfied again; on the workload.",
    EventReason.SHARE_LIMIT_VIOLATED: "A limit became violated; on the owners and on pods of the fullest domain.",
    EventReason.NO_LONGER_REQUIRED: "What was violated is not required any more, and why; on the workloads.",
    EventReason.SHARE_LIMIT_RECOVERED: "A limit is satisfied again; on the owners.",
    EventReason.SHARE_LIMIT_INFEASIBLE: "No placement of these pods can satisfy a limit; on the owners.",
    EventReason.ANTI_AFFINITY_VIOLATED: "Pods share a domain although required podAntiAffinity forbids it; on the "
    "workloads that declare the term, and on those of the other pods.",
    EventReason.ANTI_AFFINITY_RECOVERED: "No two pods share a domain against the term any more; on the workloads that "
    "declare it.",
    EventReason.PLACEMENT_DEADLOCK: "The rules of a pending pod exclude each other; on the pod and its workload.",
    EventReason.EVICTED: "The API server granted an eviction; on the pod and its workload.",
    EventReason.EVICTED_BY_OTHERS: "Somebody else has begun to evict pods of the workload; on the workload.",
    EventReason.EVICTION_BLOCKED: (
        "A PodDisruptionBudget blocked an eviction, or admission control refused it; on the pod and its workload. Or a "
        "replacement is not created, so that nothing is evicted in the namespace; on the workload."
    ),
    EventReason.EVICTION_FAILED: "An eviction failed for another reason or got no answer; on the pod and its workload.",
    EventReason.MOVE_VERIFIED: "The replacement is Ready where predicted; on the pod and its workload.",
    EventReason.MOVE_INEFFECTIVE: "The replacement is Ready elsewhere, or is late; on the pod and its workload.",
    EventReason.DOMAIN_UNSETTLED: "A domain has begun to lose nodes, so that nothing is moved there; on the policy.",
    EventReason.DOMAIN_SETTLED: "Replacements may land in such a domain again; on the policy.",
    EventReason.PLAN_PROPOSED: "In mode Approve a plan waits for approval; on rebalancer-approval.",
    EventReason.PLAN_APPROVED: "Somebody approved the proposed plan, which is now carried out; on rebalancer-approval.",
    EventReason.PLAN_EXPIRED: "A plan was not approved, or made no progress, for `planTTL`; on rebalancer-approval.",
    EventReason.APPROVAL_ENDED: (
        "The approval of a whole plan has ended: carried out, withdrawn, over, or by a change of the policy, a "
        "template or the zones; on rebalancer-approval."
    ),
    EventReason.APPROVAL_INVALID: (
        "`approval.yaml` approves nothing: it cannot be read, or names no plan that waits; on rebalancer-approval."
    ),
    EventReason.CAPACITY_REQUESTED: "Capacity was requested by placeholder pods; on the workload.",
    EventReason.CAPACITY_READY: "The placeholders run, so that the repair can begin; on the workload.",
    EventReason.CAPACITY_FAILED: "The capacity did not come, or was of no use; on the workload.",
    EventReason.REBALANCE_PAUSED: "Somebody paused the controller: who, until when and why; on rebalancer-control.",
    EventReason.POLICY_INVALID: "A new policy, or a part of a team's, was refused; on the policy's ConfigMap.",
    EventReason.POLICY_RELOADED: "A new policy is in force; on the policy's ConfigMap.",
    EventReason.GUARD_NOT_GOOD: "A guard that evictions wait for is not good; the note has what came back.",
    EventReason.GUARD_GOOD: "Its answer is good again; the next step begins when it has been good for its `for`.",
    EventReason.RIGHT_MISSING: "The account may not evict where something is to be evicted; on the policy's ConfigMap.",
    EventReason.RIGHT_GRANTED: "The account may evict there now; on the policy's ConfigMap.",
    EventReason.PREVENTION_STOPPED: "Deletion costs cannot be written or removed now; on the policy's ConfigMap.",
    EventReason.PREVENTION_RESUMED: "Deletion costs are written again; on the policy's ConfigMap.",
    EventReason.RESILIENCE_LOST: "If a domain is lost, less is left of the workload for certain than is required.",
    EventReason.SURGE_BEGAN: "Pods are added to the workload first (`repair.method`), then others go; on the workload.",
    EventReason.SURGE_ENDED: "They went, or how else it ended; Warning where it failed; on the workload.",
    EventReason.RESILIENCE_REGAINED: "As much is left as the policy requires, whichever domain is lost.",
}
VIOLATION_CAUSES: Final[Mapping[ViolationCause, str]] = {
    ViolationCause.SCALE_DOWN: "The workload was scaled down, and Kubernetes removes pods without regard to domains.",
    ViolationCause.NODE_LOST: "The emptiest domain lost nodes that are not back, or all are not Ready or cordoned.",
    ViolationCause.ZONE_LOST: "A domain that the pods may use lost its last node within the hour and has none yet.",
    ViolationCause.DOMAIN_RETURNED: "After the pods were placed the emptiest domain began to take pods, or more.",
    ViolationCause.ROLLOUT: "Pods were placed while pods of another template were still counted.",
    ViolationCause.LABELS_CHANGED: "Labels of running pods or of nodes changed.",
    ViolationCause.SOFT_CONSTRAINT: (
        "A soft constraint or a preferred term is violated; for a limit, a soft constraint that would satisfy it."
    ),
    ViolationCause.UNKNOWN: "Neither observed by the controller nor visible in the snapshot.",
}
FINDINGS: Final[Mapping[FindingKind, str]] = {
    FindingKind.REPLACEMENT_BLOCKED: "No node is feasible for a replacement of a pod of the workload.",
    FindingKind.TEMPLATE_REFUSED: "The API server would refuse the next pod.",
    FindingKind.NOTHING_STARTS_THERE: "A node does not start, or rejects, the pods that were bound to it lately.",
    FindingKind.TOO_LARGE: "Pods have more constraints or terms than `eligibility.maxTerms`, or more than is read.",
    FindingKind.NAMESPACE_TOO_COSTLY: "A namespace takes more of a cycle than its share: not all of it is evaluated.",
    FindingKind.SYSTEM_NOT_SELECTED: "Pods may be placed on nodes of another operating system than their `spec.os`.",
    FindingKind.NODE_CANNOT_RUN: "Pods may be placed on nodes that lack what they need, such as a CSI driver.",
    FindingKind.SELECTOR_MISSES_OWN_PODS: "A constraint does not select the workload's own pods.",
    FindingKind.SELECTOR_NULL: "A constraint has no selector, so it counts no pod.",
    FindingKind.SELECTOR_EMPTY: "A constraint's selector is `{}`, which counts no pod from 1.27 to 1.37.",
    FindingKind.TOPOLOGY_KEY_MISSING: "Nodes that pods may use lack a constraint's key, or all nodes a policy's.",
    FindingKind.CONSTRAINTS_CONTRADICT: "Rules of one workload that cannot be satisfied together.",
    FindingKind.TOO_FEW_DOMAINS: "A limit, `minDomains` or anti-affinity needs more domains than exist.",
    FindingKind.SIZES_WITHOUT_PLACEMENT: "Some sizes that a HorizontalPodAutoscaler may choose have no placement.",
    FindingKind.DOMAIN_UNSETTLED: "A domain loses nodes, or has until a moment ago: nothing is moved there.",
    FindingKind.EVICTED_BY_OTHERS: "Somebody else evicts pods of the workload, as a drain or a second rebalancer does.",
    FindingKind.DOMAIN_WITHOUT_NODES: "A domain exists, no node carries it, and with a node a constraint is violated.",
    FindingKind.SCALE_DOWN_UNSAFE: "A scale-down is likely to leave skew that another order would not leave.",
    FindingKind.DOMAIN_UNUSED: "No pod runs in a zone that affinity or a limit names.",
    FindingKind.SHARED_VOLUME_NOT_ATTACHED: "Pods share a ReadWriteOnce volume of a driver that attaches nothing.",
    FindingKind.MIXED_CONSTRAINTS: "Pods that are counted together have different values of a constraint.",
    FindingKind.ARCHITECTURE_NOT_SELECTED: "Pods may land on nodes of several architectures, and none shows it works.",
    FindingKind.SEVERAL_BUDGETS: "More than one PodDisruptionBudget selects a pod: the API server refuses to evict it.",
    FindingKind.BUDGET_ALWAYS_ZERO: "A PodDisruptionBudget never allows an eviction.",
    FindingKind.BUDGET_NOT_COMPUTED: "A PodDisruptionBudget that could not be computed allows no eviction.",
}
CODES: Final[Mapping[Exit, str]] = {
    Exit.FINE: "Success. `run` ends with it on SIGTERM and Ctrl-C too.",
    Exit.ERROR: "An error, such as an invalid policy; one message on standard error.",
    Exit.USAGE: "The command line is wrong.",
    Exit.SOMETHING: "`--detailed-exitcode` or `--fail-on` found something.",
    Exit.INTERRUPTED: "Ctrl-C.",
}

_MARKED = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(<!-- end: (?P=name) -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def commands() -> str:
    """List the verbs, each with its flags."""
    parts = [table(("command", "does"), [(f"`rebalancer {verb.name}`", verb.summary) for verb in VERBS])]
    for verb in VERBS:
        parser = Parser(prog=verb.name, description="")
        verb.load().add_arguments(parser)
        for name, child in _with_children(parser):
            rows = list(_arguments(child)) if name != "run" else []
            if rows:
                parts.append(f"`rebalancer {name}`:\n\n{table(('argument', 'meaning'), rows)}")
    return "\n".join(parts)


def _with_children(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield parser.prog, parser
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to read a parser
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for child in action.choices.values():
                yield from _with_children(child)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:  # noqa: SLF001  # see above
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):  # noqa: SLF001
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = metavar or ",".join(map(str, action.choices or ()))
        names = ", ".join(action.option_strings) or value
        shown = f"{names} {value}" if action.option_strings and action.nargs != 0 and value else names
        yield f"`{shown}`", (action.help or "").replace("%%", "%")


def settings() -> str:
    """List the process settings."""
    parser = Parser(prog="run", description="")
    next(verb for verb in VERBS if verb.name == "run").load().add_arguments(parser)
    helps = {action.dest: action.help or "" for action in parser._actions}  # noqa: SLF001  # see above
    rows = []
    for name in Settings.model_fields:
        about, _, rest = helps[name].replace("%%", "%").rpartition(" [default: ")
        default = rest.removesuffix("]").rpartition("; $")[0]
        rows.append((f"`{flag_of(name)}`", f"`{variable_of(name)}`", f"`{default}`", about))
    return table(("flag", "environment", "default", "meaning"), rows)


def policy() -> str:
    """List the policy's fields with their defaults."""
    document = json_schema()
    return table(("field", "default", "meaning"), _fields(document, document["$defs"], ""))


def team_policy() -> str:
    """List the fields of team policies with their defaults; the fields of groups are the cluster policy's."""
    document = team_json_schema()
    rows = _fields(document, document["$defs"], "")
    return table(("field", "default", "meaning"), (row for row in rows if "groups[]" not in row[0]))


def _fields(
    node: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str, values: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a section, then the fields of its sections; `values` is the section's own default."""
    for name, field in node["properties"].items():
        inner = _section(field, definitions)
        value = (values or {}).get(name, field.get("default"))
        about = " ".join(field.get("description", "").split())  # a second paragraph would end the table
        required = name in node.get("required", ())
        if "$ref" in field and inner is not None and not required and isinstance(value, dict):
            yield from _fields(inner, definitions, f"{prefix}{name}.", value)
            continue
        yield f"`{prefix}{name}`", "required" if required else f"`{json.dumps(value)}`", about
        if inner is not None and field.get("type") == "array":
            yield from _fields(inner, definitions, f"{prefix}{name}[].")


def _section(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the section that a field holds, or that the items of its list are."""
    reference = field.get("$ref") or field.get("items", {}).get("$ref", "")
    section: Mapping[str, Any] = definitions.get(reference.rpartition("/")[2], {})
    return section if "properties" in section else None


def shares() -> str:
    """Compute the cap of common shares for few pods."""
    bounds = [Share.of(written) for written in ("<1/3", "<=1/3", "<1/2", "<=1/2")]
    rows = []
    for pods in range(1, 7):
        cells = [f"{pods}"]
        for share in bounds:
            cap = share.cap(pods)
            cells.append(f"{cap}; {-(-pods // cap)}" if cap else "0; none is enough")
        rows.append((*cells, str(-(-pods // 2)), str(-(-pods // 3))))
    head = ("pods", *(f"`{share}`: cap; domains needed" for share in bounds), "at best over 2", "at best over 3")
    return table(head, rows)


def states() -> str:
    """List the states."""
    return table(("state", "meaning"), [(f"`{state}`", STATES[state]) for state in State])


def reasons() -> str:
    """List the reasons, and the part of the program that gives each."""
    rows = []
    for reason in Reason:
        where = sorted(_users().get(reason.name, ()))
        rows.append((f"`{reason}`", ", ".join(where) or "nothing yet", reason.meaning, reason.remedy or ADVICE[reason]))
    return table(("reason", "given by", "meaning", "what to do"), rows)


def refusals() -> str:
    """List the facts behind the reasons: what each of them says is why something is not moved."""
    rows = []
    for file in _sources():
        for node in _parse(file).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Refusal" for base in node.bases
            ):
                assigned = [one for one in node.body if isinstance(one, ast.Assign)]
                given = [ast.unparse(one.value) for one in assigned if ast.unparse(one.targets[0]) == "reason"]
                reason = f"`{Reason[given[0].rpartition('.')[2]]}`" if given else "that of its cause"
                when = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                rows.append((f"`{node.name}`", reason, when))
    return table(("refusal", "reason", "when"), sorted(rows))


def _sources() -> Iterator[Path]:
    """Yield the files that construct refusals."""
    for layer in ("scheduling", "creation", "assessment", "planning", "capacity", "admission"):
        yield from sorted((ROOT / "rebalancer" / layer).rglob("*.py"))


@cache
def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _users() -> Mapping[str, set[str]]:
    """Find which packages use which reason, by reading the source."""
    users: dict[str, set[str]] = {}
    for file in _sources():
        layer = file.relative_to(ROOT / "rebalancer").parts[0]
        for node in ast.walk(_parse(file)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                users.setdefault(node.attr, set()).add(layer)
    return users


def causes() -> str:
    """List the causes of evictions."""
    return table(("cause", "meaning"), [(f"`{cause}`", CAUSES[cause]) for cause in Cause])


def violation_causes() -> str:
    """List the causes of violations."""
    return table(("cause", "meaning"), [(f"`{cause}`", VIOLATION_CAUSES[cause]) for cause in ViolationCause])


def findings() -> str:
    """List the kinds of findings."""
    return table(("kind", "meaning"), [(f"`{kind}`", FINDINGS[kind]) for kind in FindingKind])


def lint_rules() -> str:
    """List the rules of lint, each with a heading that messages name."""
    return "\n".join(f"### {rule}\n\n{rule.sentence}\n" for rule in Rule)


def node_taints() -> str:
    """List the taints and conditions of nodes that are no targets."""
    rows = [(f"taint `{key}`", what) for key, what in (*LEAVING_TAINTS.items(), *UNSERVICEABLE_TAINTS.items())]
    rows += [(f"condition `{kind}`", "it is drained") for kind in sorted(DRAINING)]
    rows += [(f"condition `{kind}`", "it has a lasting problem") for kind in sorted(UNSERVICEABLE_CONDITIONS)]
    return table(("a node with the", "is no target since"), rows)


def events() -> str:
    """List the events."""
    nobody = Regarding(kind="", namespace="", name="")
    rows = []
    for reason in EventReason:
        event = Event(reason=reason, note="", regarding=nobody)
        rows.append((f"`{reason}`", event.type, event.action, EVENTS[reason]))
    return table(("reason", "type", "action", "when, and on what"), rows)


def metrics() -> str:
    """List the metrics."""
    rows = []
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        if metric.values:
            labels += f": {', '.join(metric.values)}" if len(metric.values) < 10 else f" ({len(metric.values)} values)"
        who = "leader" if metric.leader_only else "every replica"
        rows.append((f"`{metric.name}`", metric.type, labels, who, metric.help))
    return table(("metric", "type", "labels", "shown by", "meaning"), rows)


def alerts() -> str:
    """List the alerts."""
    return table(("alert", "severity", "for", "summary", "metrics"), alert_rows())


def codes() -> str:
    """List the exit codes."""
    return table(("code", "meaning"), [(str(code.value), CODES[code]) for code in Exit])


def moves() -> str:
    """Draw the life of a move."""
    ends = [state for state in MoveState if state.over]
    lines = ["stateDiagram-v2", f"    [*] --> {MoveState.PLANNED}"]
    lines += [f"    {before} --> {after}: {what}" for (before, what), after in TRANSITIONS.items()]
    lines += [f"    {state} --> [*]" for state in ends]
    return "\n".join(["```mermaid", *lines, "```", ""])


def surges() -> str:
    """Draw the life of a surge."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.MARKING}"]
    lines += [
        f"    {before} --> {after}: {when}"
        for before, follows in SURGE_TRANSITIONS.items()
        for after, when in follows.items()
    ]
    lines.append(f"    {Phase.UNMARKING} --> [*]")
    return "\n".join(["```mermaid", *lines, "```", ""])


def held_on_servers() -> str:
    """List the invariants that tests on real servers hold at every change, and these tests."""
    tests = marked("invariant")
    return table(
        ("name", "tests"), [(f"`{name}`", "<br>".join(tests[name])) for name in _invariants() if name in tests]
    )


def caught_on_servers() -> str:
    """List the tests on real servers that have noticed a fault alone, with the fault."""
    return table(
        ("test", "fault"), sorted((test, fault) for fault, tests in marked("caught").items() for test in tests)
    )


def _invariants() -> list[str]:
    """Return the names of the invariants in their order."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rows = page.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$", rows, re.MULTILINE)


@cache
def marked(mark: str) -> Mapping[str, list[str]]:
    """Return the tests in `tests/cluster` that have a mark, by its argument."""
    tests: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests" / "cluster").glob("test_*.py")):
        functions = [node for node in _parse(file).body if isinstance(node, ast.FunctionDef)]
        for function in functions:
            test = f"`{file.name}`: {function.name.removeprefix('test_').replace('_', ' ')}"
            for decorator in function.decorator_list:
                for call in ast.walk(decorator):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == f"pytest.mark.{mark}":
                        tests.setdefault(ast.literal_eval(call.args[0]), []).append(test)
    return tests


def chart_values() -> str:
    """List the values of the Helm chart."""
    return table(("value", "default", "meaning"), value_rows())


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands,
    "settings": settings,
    "exit-codes": codes,
    "policy": policy,
    "team-policy": team_policy,
    "shares": shares,
    "states": states,
    "reasons": reasons,
    "refusals": refusals,
    "node-taints": node_taints,
    "causes": causes,
    "violation-causes": violation_causes,
    "findings": findings,
    "events": events,
    "metrics": metrics,
    "alerts": alerts,
    "moves": moves,
    "surges": surges,
    "way": drawing,
    "chart-values": chart_values,
    "lint-rules": lint_rules,
    "held-on-servers": held_on_servers,
    "caught-on-servers": caught_on_servers,
}
PAGES: Final[Mapping[str, frozenset[str]]] = {
    "docs/reference/commands.md": frozenset({"commands", "settings", "exit-codes"}),
    "docs/reference/policy.md": frozenset({"policy", "team-policy", "shares"}),
    "docs/reference/reasons.md": frozenset(
        {"states", "reasons", "refusals", "node-taints", "causes", "violation-causes", "findings", "events"}
    ),
    "docs/reference/metrics.md": frozenset({"metrics", "alerts"}),
    "docs/design.md": frozenset({"moves", "surges", "way", "held-on-servers", "caught-on-servers"}),
    "docs/lint.md": frozenset({"lint-rules"}),
    "deploy/chart/rebalancer/README.md": frozenset({"chart-values"}),
}
"""The pages, and the parts that each must hold."""


def renewed(text: str) -> str:
    """Return a page with every generated part as it is now; raises KeyError for an unknown part."""
    return _MARKED.sub(lambda part: f"{part[1]}{PARTS[part['name']]()}{part[4]}", text)


def parts_of(text: str) -> frozenset[str]:
    """Name the generated parts of a page."""
    return frozenset(part["name"] for part in _MARKED.finditer(text))


def schema_text(name: str) -> str:
    """Return a document's schema as its file holds it."""
    return json.dumps(document_schema(DOCUMENTS[name]), indent=2) + "\n"


def wanted() -> Mapping[Path, str]:
    """Return what every generated file should hold."""
    made = {ROOT / page: renewed((ROOT / page).read_text(encoding="utf-8")) for page in PAGES}
    made |= {ROOT / "config" / f"{name}.schema.json": schema_text(name) for name in DOCUMENTS}
    made[MONITORING / "prometheus-rule.yaml"] = prometheus_rule()
    made[MONITORING / "dashboard.json"] = dashboard_text()
    return {**made, **dict(policy_files(ROOT)), **dict(chart_files())}


def main() -> int:
    """Write what is stale."""
    for path, text in wanted().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} renewed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
