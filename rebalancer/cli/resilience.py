"""`rebalancer resilience`: what is left of each workload when a zone is lost, whatever kube-scheduler chooses."""

import argparse
import sys

from rebalancer.assessment.controllers import members
from rebalancer.cli.errors import Exit, UsageError
from rebalancer.cli.load import load_cluster, select_workloads
from rebalancer.cli.objects import find_object, parse_object
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_key
from rebalancer.documents.document import json_chunks, to_yaml
from rebalancer.documents.resilience import resilience_document
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Pod
from rebalancer.reporting.text.resilience import resilience_text
from rebalancer.resilience.rows import find_resilience
from rebalancer.scheduling.view import View

_FORMATS = ("table", "wide", "json", "yaml")


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "workload", metavar="WORKLOAD", nargs="?", help="NAME, KIND/NAME or NAMESPACE/KIND/NAME: this one alone"
    )
    parser.add_argument(
        "--key",
        metavar="KEY",
        action="append",
        type=parse_key,
        help=f"the topology key whose domains are lost, one at a time; may be given repeatedly (default: {ZONE})",
    )
    parser.add_argument(
        "--phase",
        choices=[phase.value for phase in Phase],
        help="silent: the Node objects are there, tainted; gone: they are deleted (default: both)",
    )
    add_read_arguments(parser, formats=_FORMATS)


def run(args: argparse.Namespace) -> int:
    """Print what is left; nothing is changed."""
    options = ReadOptions.of(args)
    cluster = load_cluster(options)
    view = cluster.evaluation.view
    chosen = select_workloads(options, cluster.snapshot)
    if args.workload is not None:
        chosen = frozenset({_find_workload(args.workload, options.namespace, view)})
    known = {member.reference for member in members(view) if member.owner is not None}
    looked_at = known if chosen is None else known & chosen
    keys = args.key or [ZONE]
    phases = [Phase(args.phase)] if args.phase else list(Phase)
    losses = find_resilience(view, keys, phases, looked_at.__contains__)
    existing = sum(len(view.nodes.groups(key)) for key in keys)
    document = resilience_document(keys, len(looked_at), losses, existing)
    match options.output:
        case "json":
            sys.stdout.writelines(json_chunks(document))
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case _:
            wide = options.output == "wide" or args.workload is not None
            sys.stdout.write(
                resilience_text(document, options.layout, head=cluster.head(), most=options.most, wide=wide)
            )
    return Exit.FINE


def _find_workload(name: str, namespace: str | None, view: View) -> Reference:
    given, kind, own_name = parse_object([name], namespace)
    found = find_object(kind, own_name, given, view)
    if isinstance(found, Pod):
        raise UsageError(f"{name} is a pod; name its workload")
    return found
