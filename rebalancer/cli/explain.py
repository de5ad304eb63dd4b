"""`rebalancer explain`: why a pod or a workload is, or is not, moved."""

import argparse

from rebalancer.advice.claims import find_claim_recipe
from rebalancer.cli.errors import Exit
from rebalancer.cli.load import load_cluster
from rebalancer.cli.objects import find_object, parse_object
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.documents.cluster_map import map_document
from rebalancer.documents.explanation import ExplanationDetails, explain_pod, explain_workload
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import reference_of
from rebalancer.planning.planner import find_relaxations
from rebalancer.prevention.summary import explain_scale_downs
from rebalancer.reporting.text.explanation import explanation_text


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "object",
        metavar="KIND/NAME",
        nargs="+",
        help="pod, deployment, statefulset, replicaset or any kind that owns pods, and its name; also KIND NAME, "
        "NAMESPACE/KIND/NAME as -o name of report and plan prints it, and NAME alone where it is unique",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also say which method found the step, and why others did not"
    )
    add_read_arguments(parser, namespace="the object's namespace (default: the namespace that has it)")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; nothing is changed."""
    options = ReadOptions.of(args)
    namespace, kind, name = parse_object(args.object, options.namespace)
    cluster = load_cluster(options)
    evaluation, snapshot = cluster.evaluation, cluster.snapshot
    target = find_object(kind, name, namespace, evaluation.view)
    blocked = next((entry.refusal for entry in cluster.acting.blocked if entry.namespace == target.namespace), None)
    top = snapshot.top_owner_of(target) if isinstance(target, Pod) else None
    workload = reference_of(top) if top is not None else target if isinstance(target, Reference) else None
    details = ExplanationDetails(
        find_relaxations(evaluation.plan),
        verbose=args.verbose,
        blocked=blocked,
        claims=find_claim_recipe(workload, evaluation.view, evaluation.assessment, evaluation.plan)
        if workload is not None
        else None,
        moving=frozenset(move.workload for move in evaluation.inputs.memory.in_flight),
        find_idle=lambda: cluster.acting.idle,
    )
    if isinstance(target, Pod):
        document = explain_pod(target, evaluation.view, evaluation.assessment, evaluation.plan, details)
    else:
        scale_downs = explain_scale_downs(target, evaluation.view, evaluation.assessment, cluster.policy)
        drawn = map_document(evaluation, evaluation.inputs.memory, chosen=[target])
        details = details._replace(scale_downs=tuple(scale_downs), drawn=drawn)
        document = explain_workload(target, evaluation.assessment, evaluation.plan, snapshot, details)
    write_document(document, options.output, lambda: explanation_text(document, options.layout, foot=cluster.head()))
    return Exit.FINE
