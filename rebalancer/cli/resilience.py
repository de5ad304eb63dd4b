"""`rebalancer resilience`: what is left of each workload after the loss of a zone, for any choice of kube-scheduler."""

import argparse
from collections.abc import Collection, Sequence

from rebalancer.assessment.controllers import members
from rebalancer.cli.errors import Exit, UsageError
from rebalancer.cli.load import LoadedCluster, load_cluster, select_workloads
from rebalancer.cli.objects import find_object, parse_object
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_key
from rebalancer.documents.resilience import ResilienceDocument, resilience_document
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Pod
from rebalancer.reporting.text.resilience import resilience_text
from rebalancer.resilience.changes import find_all_changes
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
    phases = [Phase(args.phase)] if args.phase else list(Phase)
    decided = cluster.evaluation.plan.fates.decided.values()
    planned = frozenset(eviction.workload for evictions in decided for eviction in evictions)
    document = lose_domains(view, args.key or [ZONE], chosen, phases, named=args.workload is not None, planned=planned)
    write_losses(document, cluster, options, wide=args.workload is not None)
    return Exit.FINE


def lose_domains(
    view: View,
    keys: Sequence[str],
    chosen: Collection[Reference] | None = None,
    phases: Sequence[Phase] = tuple(Phase),
    *,
    named: bool | None = None,
    planned: Collection[Reference] = (),
) -> ResilienceDocument:
    """Return what is left of the chosen workloads (None: all) after the loss of each domain of these keys.

    Also return changes that make the workloads whole. More changes are tried if one workload is `named`.
    """
    known = {member.reference for member in members(view) if member.owner is not None}
    looked_at = known if chosen is None else known.intersection(chosen)
    losses = [*find_resilience(view, keys, phases, looked_at.__contains__)]
    changes, left = find_all_changes(view, keys, phases, losses, named=named) if named is not None else ((), 0)
    existing = sum(len(view.nodes.groups(key)) for key in keys)
    return resilience_document(keys, len(looked_at), losses, existing, changes, left, view.nodes.by_name, planned)


def write_losses(
    document: ResilienceDocument, cluster: LoadedCluster, options: ReadOptions, *, wide: bool = False
) -> None:
    """Write losses in the chosen format; `wide` shows every loss in any case."""
    wide = wide or options.output == "wide"
    write_document(
        document,
        options.output,
        lambda: resilience_text(document, options.layout, head=cluster.head(), most=options.most, wide=wide),
    )


def _find_workload(name: str, namespace: str | None, view: View) -> Reference:
    given, kind, own_name = parse_object([name], namespace)
    found = find_object(kind, own_name, given, view)
    if isinstance(found, Pod):
        raise UsageError(f"{name} is a pod; name its workload")
    return found
