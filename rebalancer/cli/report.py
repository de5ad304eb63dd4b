"""`rebalancer report`: every constraint and every limit now, counted as kube-scheduler counts."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rebalancer.assessment.findings import find_findings
from rebalancer.cli.errors import Exit, UsageError, warn
from rebalancer.cli.load import LoadedCluster, find_more_sizes, load_cluster, select_workloads
from rebalancer.cli.objects import find_object, parse_object
from rebalancer.cli.options import LIST_FORMATS, ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.resilience import lose_domains
from rebalancer.cli.selectors import parse_key
from rebalancer.cli.terminal import write_lines
from rebalancer.documents.cluster_map import WHOLE, map_document
from rebalancer.documents.map import MapDocument
from rebalancer.documents.plan_notes import local_storage_line
from rebalancer.documents.report import ReportDocument, every_workload, report_document
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.workloads import BUILT_IN
from rebalancer.planning.plan import Plan, narrow_plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.prevention.findings import find_scale_down_findings
from rebalancer.reporting.text.report import report_map_text, report_text

_FAIL_ON = {
    "violated": State.VIOLATED,
    "infeasible": State.INFEASIBLE,
    "unfixable": State.UNFIXABLE,
    "unknown": State.UNKNOWN,
}
_FINDING = "finding"
_FINE = frozenset({State.SATISFIED, State.UNKNOWN})


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    add_read_arguments(parser, formats=LIST_FORMATS)
    parser.add_argument(
        "--map",
        metavar="KIND/NAME",
        nargs="?",
        const="",
        help="draw a map instead: the pods of each zone and node against their bounds, and which are to move where to; "
        "of all violated workloads, or of one workload with all its rules",
    )
    parser.add_argument(
        "--failures",
        metavar="KEY",
        nargs="?",
        const=ZONE,
        action="append",
        type=parse_key,
        help="also what `rebalancer resilience` says: what is left of each workload when a domain of this topology key "
        f"is lost; may be given repeatedly (without KEY: {ZONE})",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also which sizes have no placement for workloads without a HorizontalPodAutoscaler, up to twice their "
        "replicas",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        metavar="WHAT",
        choices=(*_FAIL_ON, _FINDING),
        default=[],
        help=f"{', '.join(_FAIL_ON)} or {_FINDING}: exit 3 if a hard constraint, a limit or required "
        "anti-affinity is so, or there is one; "
        "a pod without a node counts as violated; also if what was read is incomplete; may be given repeatedly",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    options = ReadOptions.of(args)
    cluster = load_cluster(options)
    evaluation = cluster.evaluation
    assessment, view = evaluation.assessment, evaluation.view
    workloads = select_workloads(options, cluster.snapshot)
    if args.verbose:
        assessment = replace(assessment, sizes=(*assessment.sizes, *find_more_sizes(cluster)))
    drawn = None if args.map is None else _draw(args.map, cluster, options, workloads)
    scale_downs = find_scale_down_findings(view, evaluation.assessment, cluster.policy, cluster.snapshot.taken_at)
    document = report_document(
        assessment,
        evaluation.plan,
        evaluation.causes,
        (*find_findings(view, assessment, cluster.unmatched), *scale_downs),
        every_workload if workloads is None else workloads.__contains__,
        lose_domains(view, args.failures, workloads) if args.failures else None,
        find_relaxations(evaluation.plan),
        view,
        memory=evaluation.inputs.memory,
        drawn=drawn,
    )
    if options.output == "name":
        write_lines(_unsatisfied_names(document))
    else:

        def text() -> str:
            return _make_text(document, narrow_plan(evaluation.plan, workloads), cluster, options, args)

        write_document(document, options.output, text)
    if not args.fail_on:
        return Exit.FINE
    return _exit_code(document, args.fail_on, cluster.snapshot, chose_nothing=workloads is not None and not workloads)


def _make_text(
    document: ReportDocument, made: Plan, cluster: LoadedCluster, options: ReadOptions, args: argparse.Namespace
) -> str:
    layout, head = options.layout, cluster.head()
    if document.map is not None:
        return report_map_text(document, document.map, layout, head=head, rules=bool(args.map))
    held, wide = local_storage_line(made.refusals), options.output == "wide"
    return report_text(document, held, layout, head=head, most=options.most, wide=wide, idle=cluster.acting.idle)


def _exit_code(document: ReportDocument, fail_on: Sequence[str], snapshot: Snapshot, *, chose_nothing: bool) -> int:
    """Return the exit code of --fail-on, and warn if the report is no basis for it."""
    if not (document.constraints or document.limits or document.anti_affinity or document.deadlocks):
        warn(["--fail-on has nothing to go by: no constraint and no limit was evaluated; check -n, -l and the policy"])
    gap = describe_unread(snapshot)
    if gap:
        warn([f"--fail-on: {gap}"])
    return Exit.SOMETHING if gap or chose_nothing or _has_failed(document, fail_on) else Exit.FINE


def _draw(
    name: str, cluster: LoadedCluster, options: ReadOptions, workloads: frozenset[Reference] | None
) -> MapDocument:
    """Draw the workload of this name, or for "" the violated workloads among the selected ones."""
    evaluation = cluster.evaluation
    size = WHOLE if options.most is None else WHOLE._replace(lanes=min(WHOLE.lanes, options.most))
    if not name:
        return map_document(evaluation, evaluation.inputs.memory, chosen=workloads, satisfied=False, size=size)
    namespace, kind, own_name = parse_object([name], options.namespace)
    found = find_object(kind, own_name, namespace, evaluation.view)
    if isinstance(found, Pod):
        raise UsageError(f"--map {name} names a pod; name its workload")
    return map_document(evaluation, evaluation.inputs.memory, chosen=[found])


def describe_unread(snapshot: Snapshot) -> str:
    """Say which kinds a report lacks: kinds that were not read, or whose objects all failed; "" if there is none."""
    owners = {pod.owner.kind for pod in snapshot.pods if pod.owner is not None and pod.owner.kind in BUILT_IN}
    missing = sorted(snapshot.unknown & {"Pod", "Node", *owners})
    left = {"Pod": snapshot.pods, "Node": snapshot.nodes}
    left |= {kind: [owner for owner in snapshot.workloads if owner.kind == kind] for kind in BUILT_IN}
    rejected = sorted({fault.kind for fault in snapshot.faults if fault.kind in left and not left[fault.kind]})
    parts = [f"no {', '.join(missing)} was read"] if missing else []
    parts += [f"every {', '.join(rejected)} is malformed"] if rejected else []
    return "; ".join(parts)


def _unsatisfied_names(document: ReportDocument) -> Iterable[str]:
    """Return the workloads with an unsatisfied constraint, limit or term, each once: `shop/deployment/web`."""
    unsatisfied = [(row.namespace, row.workloads) for row in document.constraints if row.state not in _FINE]
    unsatisfied += [
        (row.namespace, row.workloads) for row in document.anti_affinity if row.state not in _FINE and not row.weight
    ]
    names = [f"{namespace}/{one.kind.lower()}/{one.name}" for namespace, workloads in unsatisfied for one in workloads]
    limits = [row for row in document.limits if row.state not in _FINE and "workload" in row.key]
    for limit in limits:
        kind, _, name = limit.key["workload"].partition("/")
        names.append(f"{limit.namespace}/{kind.lower()}/{name}")
    return dict.fromkeys(names)


def _has_failed(document: ReportDocument, fail_on: Sequence[str]) -> bool:
    """Return whether the report has anything that --fail-on names."""
    failing: set[str] = {_FAIL_ON[name] for name in fail_on if name != _FINDING}
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    states = {row.state for row in document.constraints if row.when_unsatisfiable == hard}
    waits = any(not waiting.gated for waiting in document.waiting)
    states |= {State.VIOLATED} if document.deadlocks or waits else set()
    states |= {row.state for row in document.limits}
    states |= {row.state for row in document.anti_affinity if not row.weight}
    return not failing.isdisjoint(states) or bool(_FINDING in fail_on and document.findings)
