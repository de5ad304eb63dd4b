"""`rebalancer check`: the preconditions of any eviction on one screen, each line with its remedy."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from rebalancer.adapters.files.profiles import UnreadableProfile, read_profile
from rebalancer.adapters.kubernetes.configmaps import find_author, read_config_map
from rebalancer.adapters.kubernetes.installation import (
    Program,
    find_missing_rights,
    list_leaders,
    list_programs,
    read_certificate_end,
    serves_monitoring,
)
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport, connect
from rebalancer.adapters.prometheus import PrometheusQueries
from rebalancer.assessment.findings import find_findings
from rebalancer.checks import results
from rebalancer.checks.document import check_document, check_text
from rebalancer.checks.results import OtherProgram, Outcome, Result
from rebalancer.cli.controller_state import find_elsewhere, read_lease, read_status
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.files import ReadPolicy, choose_policy
from rebalancer.cli.load import LoadedCluster, load_cluster
from rebalancer.cli.options import FORMATS, ReadOptions, add_color_argument
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.refusals import unreadable
from rebalancer.cli.terminal import find_layout
from rebalancer.documents.status import LeaseStatus, StatusDocument
from rebalancer.locations import ConfigMapPolicy, controller_namespace, parse_policy_location
from rebalancer.model.history import NOBODY, Author
from rebalancer.policy import Mode, Policy
from rebalancer.policy.team_maps import POLICY_KEY
from rebalancer.reporting.acting import leaders_time, runs

_FORBIDDEN: Final = 403
_MOST_NAMESPACES: Final = 20
"""If the right to evict is not granted everywhere, up to this many namespaces are checked."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It changes nothing, and exits with 3 if something is wrong. In the controller's pod it asks the guards' "
    )
    parser.epilog += "Prometheus from there: kubectl exec -n rebalancer-system deploy/rebalancer -- … check."
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="the kubeconfig file (default: $KUBECONFIG, ~/.kube/config)"
    )
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")
    parser.add_argument(
        "--controller-namespace",
        metavar="NAME",
        help="where the controller runs (default: $REBALANCER_NAMESPACE, the pod's own, rebalancer-system)",
    )
    parser.add_argument("--policy", metavar="FILE", help="the policy (default: the one in force in the cluster)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=FORMATS,
        default=FORMATS[0],
        help="table, json or yaml (default: table)",
    )
    add_color_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each check."""
    namespace = args.controller_namespace or controller_namespace()
    try:
        transport = connect(kubeconfig=args.kubeconfig, context=args.context)
        read = choose_policy(args.policy, namespace, kubeconfig=args.kubeconfig, context=args.context)
        options = ReadOptions.live(kubeconfig=args.kubeconfig, context=args.context, namespace=namespace, policy=read)
        configuration, readable = _check_configuration(read)
        cluster = load_cluster(replace(options, read_policy=readable))
        document = check_document(list(_check(transport, namespace, options, cluster, configuration)))
    except ClusterError as error:
        raise unreadable(error) from None
    write_document(document, args.output, lambda: check_text(document, find_layout(args.color)))
    return Exit.SOMETHING if document.wrong else Exit.FINE


def _check(
    transport: Transport, namespace: str, options: ReadOptions, cluster: LoadedCluster, configuration: Result
) -> Iterator[Result]:
    policy, read = options.policy, options.read_policy
    yield results.check_server(cluster.snapshot.version)
    status, lease = _read_controller(transport, namespace)
    now = transport.now()
    if status is not None:
        status = msgspec.structs.replace(status, lease=lease)
        now = leaders_time(status, now)
    has_run = status is not None and status.last_cycle is not None
    elsewhere = "" if has_run else find_elsewhere(transport, namespace)
    yield results.check_controller(status, lease, namespace, now, elsewhere=elsewhere)
    reached, outside = _count_workloads(cluster, policy)
    if elsewhere:
        yield results.pass_over_rights(namespace)
    else:
        yield _guarded("rights", lambda: _check_rights(transport, namespace, policy.mode, sorted(reached)))
    yield results.check_policy(
        f"policy {policy.hash} ({read.name(is_led=status is None or runs(status))})",
        read.doubt,
        _read_author(transport, read.location),
        written=read.written,
        missing=read.missing,
    )
    yield configuration
    folder = read.folders[0] if read.folders else Path()
    yield results.check_guards(PrometheusQueries(folder=folder).ask(policy.guards) if policy.guards.queries else ())
    evaluation = cluster.evaluation
    yield results.check_budgets(find_findings(evaluation.view, evaluation.assessment, cluster.unmatched))
    yield results.check_reach(outside, sum(reached.values()) + sum(outside.values()))
    yield _check_others(transport, namespace)
    yield _guarded("monitoring", lambda: results.check_monitoring(serves_monitoring(transport)))
    yield results.check_clocks(transport.clock_ahead, timedelta(seconds=lease.ahead_seconds))
    yield results.check_certificate(read_certificate_end(transport), datetime.now(UTC))


def _guarded(name: str, check: Callable[[], Result]) -> Result:
    """Return the result of a check, or "not known" if the check may not read what it needs."""
    try:
        return check()
    except RequestRefused as error:
        if error.status != _FORBIDDEN:
            raise
        return Result(name, Outcome.UNKNOWN, str(error.details.get("message", error)), "an administrator may read it")


def _read_controller(transport: Transport, namespace: str) -> tuple[StatusDocument | None, LeaseStatus]:
    try:
        status = read_status(transport, namespace)
    except CliError as error:
        return None, LeaseStatus(error=str(error))
    except RequestRefused as error:
        return None, LeaseStatus(error=str(error.details.get("message", error)))
    return status, read_lease(transport, namespace)


def _check_rights(transport: Transport, namespace: str, mode: Mode, namespaces: Sequence[str]) -> Result:
    account = f"system:serviceaccount:{namespace}:rebalancer"
    evicts, asked = mode is not Mode.OBSERVE, namespaces[:_MOST_NAMESPACES]
    return results.check_rights(mode, find_missing_rights(transport, account, asked, evicts=evicts))


def _read_author(transport: Transport, location: str | None) -> Author:
    """Return who has changed the policy last, if it is in a readable ConfigMap."""
    place = parse_policy_location(location) if location is not None else None
    if not isinstance(place, ConfigMapPolicy):
        return NOBODY
    try:
        config_map = read_config_map(transport, place.namespace, place.name)
    except ClusterError:
        return NOBODY
    return find_author(config_map, POLICY_KEY) if config_map is not None else NOBODY


def _check_configuration(read: ReadPolicy) -> tuple[Result, ReadPolicy]:
    """Check the scheduler's configuration; return the results, and the policy without an unreadable configuration."""
    file = str(read.policy.scheduler.config_file or "")
    try:
        read_profile(read.policy, read.folders, read.files)
    except UnreadableProfile as error:
        plain = read.policy.model_copy(update={"scheduler": type(read.policy.scheduler)()})
        return results.check_configuration(file, str(error)), replace(read, policy=plain)
    return results.check_configuration(file, ""), read


def _count_workloads(cluster: LoadedCluster, policy: Policy) -> tuple[Counter[str], Counter[str]]:
    """Count workloads with constraints or limits by namespace: within the policy's scope, and outside of it."""
    assessment = cluster.evaluation.assessment
    every = {workload for group in assessment.groups for workload in group.workloads}
    every |= {workload for limit in assessment.limits for workload in limit.gathered.owners}
    selects = policy.eligibility.namespaces.selects
    reached = Counter(one.namespace for one in every if selects(one.namespace))
    return reached, Counter(one.namespace for one in every if not selects(one.namespace))


def _check_others(transport: Transport, namespace: str) -> Result:
    found: list[Program] = []
    unknown = []
    for read in (list_leaders, list_programs):
        try:
            found += read(transport, namespace)
        except RequestRefused as error:
            unknown.append(str(error.details.get("message", error)))
    programs = [OtherProgram(one.kind, one.namespace, one.name, _way_to_stop(one)) for one in found]
    return results.check_others(programs, "; ".join(unknown))


def _way_to_stop(program: Program) -> str:
    match program.kind:
        case "Lease":
            return f"rebalancer pause --controller-namespace {program.namespace}"
        case "CronJob":
            return f'kubectl patch cronjob {program.name} -n {program.namespace} -p \'{{"spec":{{"suspend":true}}}}\''
        case _:
            return f"kubectl scale deployment {program.name} -n {program.namespace} --replicas=0"
