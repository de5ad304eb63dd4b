"""`rebalancer explain`: why a pod or a workload is, or is not, moved."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from rebalancer.assessment.name_hints import nearest_name
from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.load import load_cluster
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.parsing import Parser
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.planner import find_relaxations
from rebalancer.prevention.summary import explain_scale_downs
from rebalancer.reporting.documents.document import to_json, to_yaml
from rebalancer.reporting.documents.explanation import ExplanationDetails, explain_pod, explain_workload
from rebalancer.reporting.text.explanation import explanation_text

_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "ReplicaSet"),
}


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "object",
        metavar="KIND/NAME",
        nargs="+",
        help="pod, deployment, statefulset or replicaset, and its name; or KIND NAME",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also say which method found the step, and why others did not"
    )
    add_read_arguments(parser, namespace="the object's namespace (default: the one that has it)")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; nothing is changed."""
    options = ReadOptions.of(args)
    kind, name = _parse_object(args.object)
    cluster = load_cluster(options)
    evaluation, snapshot = cluster.evaluation, cluster.snapshot
    target = _find_object(kind, name, options.namespace, snapshot)
    blocked = next((entry.refusal for entry in cluster.acting.blocked if entry.namespace == target.namespace), None)
    details = ExplanationDetails(find_relaxations(evaluation.plan), verbose=args.verbose, blocked=blocked)
    if isinstance(target, Pod):
        document = explain_pod(target, evaluation.view, evaluation.assessment, evaluation.plan, details)
    else:
        # A Deployment's ReplicaSet is explained as the Deployment.
        top = snapshot.workload.get(target.owner.uid, target) if target.owner is not None else target
        workload = reference_of(top)
        scale_downs = explain_scale_downs(workload, evaluation.view, evaluation.assessment, cluster.policy)
        details = details._replace(scale_downs=tuple(scale_downs))
        document = explain_workload(workload, evaluation.assessment, evaluation.plan, snapshot, details)
    match options.output:
        case "json":
            sys.stdout.write(to_json(document).decode())
        case "yaml":
            sys.stdout.write(to_yaml(document))
        case _:
            sys.stdout.write(explanation_text(document, options.layout))
    return Exit.FINE


def _parse_object(words: Sequence[str]) -> tuple[str, str]:
    """Read KIND/NAME, or KIND NAME as kubectl takes it too."""
    kind, _, name = words[0].partition("/") if len(words) == 1 else (words[0], "", words[1])
    if len(words) > 2 or not name or "/" in name or kind.lower() not in _KINDS:
        near = get_close_matches(kind.lower(), _KINDS, n=1)
        hint = f"; did you mean {near[0]}/{name}?" if near and name and kind.lower() not in _KINDS else ""
        if len(words) > 1 and all("/" in word for word in words):
            hint = "; name one object at a time"
        raise UsageError(
            f"found {' '.join(words)!r}, expected KIND/NAME such as pod/web-1; kinds: pod, deployment, statefulset, "
            f"replicaset{hint}"
        )
    return _KINDS[kind.lower()], name


def _find_object(kind: str, name: str, namespace: str | None, snapshot: Snapshot) -> Pod | Workload:
    candidates: Sequence[Pod | Workload] = (
        snapshot.pods if kind == "Pod" else [workload for workload in snapshot.workloads if workload.kind == kind]
    )
    candidates = [candidate for candidate in candidates if namespace in {None, candidate.namespace}]
    matching = [candidate for candidate in candidates if candidate.name == name]
    if not matching:
        where = f" in namespace {namespace}" if namespace is not None else ""
        near = nearest_name(name, {candidate.name for candidate in candidates})
        raise CliError(f"{kind} {name} does not exist{where}{f'; did you mean {near}?' if near else ''}")
    if len(matching) > 1:
        namespaces = ", ".join(sorted(candidate.namespace for candidate in matching))
        raise CliError(f"{kind} {name} exists in the namespaces {namespaces}; choose one with -n")
    return matching[0]
