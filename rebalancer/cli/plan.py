"""`rebalancer plan`: which pods would be evicted, why, and why not more."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.load import load_cluster, select_workloads
from rebalancer.cli.options import LIST_FORMATS, ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import write_lines
from rebalancer.documents.document import json_chunks
from rebalancer.documents.plan import PlanDocument, mark_moving, plan_document, plan_totals
from rebalancer.documents.plan_notes import find_notes
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import narrow_plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.reporting.text.plan import PlanOptions, plan_text
from rebalancer.resilience.comparison import find_effect


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    add_read_arguments(parser, formats=LIST_FORMATS)
    parser.add_argument("--detailed-exitcode", action="store_true", help="exit 3 if anything would be evicted")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also say which method found each step, and why others did not"
    )
    parser.add_argument("--out", metavar="FILE", help="also write the plan as JSON into this file")


def _name_pods(evictions: Sequence[Eviction]) -> Iterator[str]:
    """Yield the pods as `rebalancer explain` takes them, with the namespace if there are several."""
    several = len({eviction.pod.namespace for eviction in evictions}) > 1
    for eviction in evictions:
        yield f"{eviction.pod.namespace}/pod/{eviction.pod.name}" if several else f"pod/{eviction.pod.name}"


def run(args: argparse.Namespace) -> int:
    """Print the plan; nothing is changed."""
    options = ReadOptions.of(args)
    cluster = load_cluster(options)
    workloads = select_workloads(options, cluster.snapshot)
    made = narrow_plan(cluster.evaluation.plan, workloads)
    if options.output == "name":
        write_lines(_name_pods(made.fates.going))
    if options.output != "name" or args.out:
        notes, acting = find_notes(made, cluster.evaluation.assessment, workloads), cluster.acting
        document = plan_document(
            made,
            cluster.snapshot,
            find_relaxations(made),
            notes,
            acting=acting.line,
            idle=acting.idle,
            policy_source=cluster.source,
            effect=find_effect(cluster.evaluation.view, made.fates),
        )
        _write(mark_moving(document, cluster.evaluation.inputs.memory.moves), args, options)
    has_evictions = plan_totals(made).evictions > 0
    return Exit.SOMETHING if args.detailed_exitcode and has_evictions else Exit.FINE


def _write(document: PlanDocument, args: argparse.Namespace, options: ReadOptions) -> None:
    """Write the document into a file if requested, and to standard output in the chosen format."""
    if args.out:
        try:
            with Path(args.out).open("w", encoding="utf-8") as file:
                file.writelines(json_chunks(document))
        except OSError as error:
            raise CliError(f"{args.out}: {error.strerror}") from None
    if options.output != "name":
        shown = PlanOptions(verbose=args.verbose, wide=options.output == "wide", most=options.most)
        write_document(document, options.output, lambda: plan_text(document, shown, options.layout))
