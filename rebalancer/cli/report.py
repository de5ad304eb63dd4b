"""`rebalancer report`: the skew of every constraint now, counted as kube-scheduler counts it."""

import argparse
import sys

from rebalancer.cli.errors import Exit
from rebalancer.cli.looking import chosen, look
from rebalancer.cli.parsing import Parser
from rebalancer.cli.reading import Reading, add_reading_arguments
from rebalancer.model.verdicts import State
from rebalancer.reporting.documents import to_json, to_yaml
from rebalancer.reporting.report_document import report_document
from rebalancer.reporting.text import report_text

_FAIL_ON = {"violated": State.VIOLATED, "infeasible": State.INFEASIBLE, "unfixable": State.UNFIXABLE}


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    add_reading_arguments(parser)
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=tuple(_FAIL_ON),
        default=[],
        help="exit 3 if a hard constraint is in this state; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    reading = Reading.of(args)
    found = look(reading)
    workloads = chosen(reading, found.snapshot)
    document = report_document(
        found.assessment, found.plan, lambda workload: workloads is None or workload in workloads
    )
    match reading.output:
        case "json":
            sys.stdout.write(to_json(document).decode())
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case _:
            sys.stdout.write(report_text(document))
    failing = {_FAIL_ON[name] for name in args.fail_on}
    hit = any(row.state in failing for row in document.constraints if row.when_unsatisfiable == "DoNotSchedule")
    return Exit.SOMETHING if hit else Exit.FINE
