"""`rebalancer report`: every constraint and every limit now, counted as kube-scheduler counts."""

import argparse
import sys
from collections.abc import Iterable, Sequence

from rebalancer.assessment.domain_failures import simulate_failures
from rebalancer.assessment.findings import find_findings
from rebalancer.cli.errors import Exit, warn
from rebalancer.cli.load import find_scale_down_findings, load_cluster, select_workloads
from rebalancer.cli.options import LIST_FORMATS, ReadOptions, add_read_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.plan import narrow_plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.reporting.documents.document import json_chunks, to_yaml
from rebalancer.reporting.documents.report import ReportDocument, every_workload, report_document
from rebalancer.reporting.text.junit import report_junit
from rebalancer.reporting.text.report import report_text

_FAIL_ON = {"violated": State.VIOLATED, "infeasible": State.INFEASIBLE, "unfixable": State.UNFIXABLE}
_FINDING = "finding"


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    add_read_arguments(parser, formats=(*LIST_FORMATS, "junit"))
    parser.add_argument(
        "--failures",
        action="store_true",
        help="what the loss of each single node and zone would break, and whether the lost pods could be placed again",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=(*_FAIL_ON, _FINDING),
        default=[],
        help="exit 3 if a hard constraint or a limit is in this state, or there is a finding; "
        "a PlacementDeadlock counts as violated; may be given repeatedly",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    options = ReadOptions.of(args)
    cluster = load_cluster(options)
    evaluation = cluster.evaluation
    assessment, view = evaluation.assessment, evaluation.view
    workloads = select_workloads(options, cluster.snapshot)
    document = report_document(
        assessment,
        evaluation.plan,
        evaluation.causes,
        (*find_findings(view, assessment, cluster.unmatched), *find_scale_down_findings(cluster)),
        every_workload if workloads is None else workloads.__contains__,
        simulate_failures(assessment.pod_groups, assessment.limits, view) if args.failures else None,
        find_relaxations(evaluation.plan),
    )
    match options.output:
        case "json":
            sys.stdout.writelines(json_chunks(document))
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case "name":
            sys.stdout.writelines(f"{name}\n" for name in _unsatisfied_names(document))
        case "junit":
            sys.stdout.write(report_junit(document))
        case _:
            refusals = narrow_plan(evaluation.plan, workloads).refusals
            wide = options.output == "wide"
            sys.stdout.write(report_text(document, refusals, options.layout, most=options.most, wide=wide))
    if args.fail_on and not (document.constraints or document.limits or document.deadlocks):
        warn(["--fail-on has nothing to go by: no constraint and no limit was evaluated; check -n, -l and the policy"])
    return Exit.SOMETHING if _has_failed(document, args.fail_on) else Exit.FINE


def _unsatisfied_names(document: ReportDocument) -> Iterable[str]:
    """Return the workloads of which a constraint or limit is not satisfied, each once: `shop/deployment/web`."""
    rows = [row for row in document.constraints if row.state != State.SATISFIED]
    names = [f"{row.namespace}/{one.kind.lower()}/{one.name}" for row in rows for one in row.workloads]
    limits = [row for row in document.limits if row.state != State.SATISFIED and "workload" in row.key]
    for limit in limits:
        kind, _, name = limit.key["workload"].partition("/")
        names.append(f"{limit.namespace}/{kind.lower()}/{name}")
    return dict.fromkeys(names)


def _has_failed(document: ReportDocument, fail_on: Sequence[str]) -> bool:
    """Return whether the report has anything that --fail-on names."""
    failing = {_FAIL_ON[name] for name in fail_on if name != _FINDING}
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    states = {row.state for row in document.constraints if row.when_unsatisfiable == hard}
    states |= {State.VIOLATED} if document.deadlocks else set()
    states |= {row.state for row in document.limits}
    return not failing.isdisjoint(states) or bool(_FINDING in fail_on and document.findings)
