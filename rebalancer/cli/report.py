"""`rebalancer report`: every constraint and every limit now, counted as kube-scheduler counts."""

import argparse
import sys

from rebalancer.assessment.domain_failures import failures
from rebalancer.cli.errors import Exit
from rebalancer.cli.load import chosen, look
from rebalancer.cli.options import FORMATS, Reading, add_reading_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.reporting.documents.document import to_json, to_yaml
from rebalancer.reporting.documents.report import every_workload, report_document
from rebalancer.reporting.text.junit import report_junit
from rebalancer.reporting.text.report import report_text

_FAIL_ON = {"violated": State.VIOLATED, "infeasible": State.INFEASIBLE, "unfixable": State.UNFIXABLE}
_FINDING = "finding"


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    add_reading_arguments(parser, formats=(*FORMATS, "junit"))
    parser.add_argument(
        "--failures",
        action="store_true",
        help="what the loss of each single node and zone would break, and whether what is lost could be placed again",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=(*_FAIL_ON, _FINDING),
        default=[],
        help="exit 3 if a hard constraint or a limit is in this state, or something is found; "
        "a PlacementDeadlock counts as violated; may be given repeatedly",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    reading = Reading.of(args)
    found = look(reading)
    workloads = chosen(reading, found.snapshot)
    document = report_document(
        found.assessment,
        found.plan,
        every_workload if workloads is None else workloads.__contains__,
        failures(found.assessment.pod_groups, found.assessment.limits, found.view) if args.failures else None,
    )
    match reading.output:
        case "json":
            sys.stdout.write(to_json(document).decode())
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case "junit":
            sys.stdout.write(report_junit(document))
        case _:
            sys.stdout.write(report_text(document))
    failing = {_FAIL_ON[name] for name in args.fail_on if name != _FINDING}
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    states = {row.state for row in document.constraints if row.when_unsatisfiable == hard}
    states |= {State.VIOLATED} if document.deadlocks else set()
    hit = not failing.isdisjoint(states | {row.state for row in document.limits})
    hit = hit or bool(_FINDING in args.fail_on and document.findings)
    return Exit.SOMETHING if hit else Exit.FINE
