"""`rebalancer cleanup`: deletes everything that `rebalancer run` has written, before an uninstallation.

The controller must not recreate deleted objects. So its Deployment is scaled to 0 first, and nothing is deleted before
the Lease is free, that is, released or not renewed for its duration.
"""

import argparse
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.leftovers import DEPLOYMENT, Leftovers
from rebalancer.adapters.kubernetes.placeholders import PlaceholderStore
from rebalancer.adapters.kubernetes.scaling import Scaling
from rebalancer.adapters.kubernetes.surge_map import SurgeMap
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.cli.confirm import add_confirmation_arguments, is_confirmed
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.files import choose_policy
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import say
from rebalancer.model.words import plural
from rebalancer.ports import LeaseUnavailable, PatchResult, ReadFailedError, ScaleResult
from rebalancer.settings import Settings
from rebalancer.surge.record import Phase, decode_surges

_EPILOG: Final = (
    "It shows what it would do and asks. It scales the Deployment rebalancer to 0, waits until no process holds the "
    "Lease, takes back pods that surges have added, and removes deletion costs that the controller has written, its "
    "placeholder Jobs, the ConfigMaps rebalancer-status, -control, -approval, -surges and those of the history, and "
    "the Lease. Costs that others have set and the policy stay. Where it cannot go on before these ConfigMaps, it "
    "scales the Deployment back. It may be repeated. To go on afterwards, apply the installation again."
)
_GRACE: Final = 60.0
"""Seconds beyond the Lease's duration after which a stopped process has ended."""

_POLL: Final = 1.0
_MOST_PASSES: Final = 5
"""Pods that change while they are patched are read again in up to this many passes."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="the policy, which names the placeholders' namespace (default: the one in force)",
    )
    add_confirmation_arguments(parser)
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Show the leftovers, ask, and delete them, line by line."""
    given, args.policy = args.policy, None
    settings = load_flags(args)
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    policy = choose_policy(given, settings.namespace, kubeconfig=kubeconfig, context=settings.context).policy
    with _explain_errors():
        transport = connect(
            kubeconfig=kubeconfig,
            context=settings.context,
            read_timeout=settings.request_timeout.total_seconds(),
        )
        warn(transport.warnings)
        leftovers = Leftovers(transport, settings.namespace)
        name = f"Deployment {settings.namespace}/{DEPLOYMENT}"
        replicas = leftovers.read_replicas()
        say(_describe(leftovers, name, replicas))
        if not is_confirmed(args, "Stop the controller and delete all of this?"):
            return Exit.FINE if args.dry_run else Exit.ERROR
        say([f"{name}: scaled to 0." if leftovers.scale_controller(0) else f"{name}: not found."])
        with _taking_back(leftovers, name, replicas):
            await_free_lease(transport, settings)
            say(take_back_surges(transport, settings.namespace))
            say([f"Removed the deletion costs of {plural(remove_costs(leftovers), 'pod')}."])
            say([f"Deleted {plural(delete_placeholders(transport, policy.capacity.namespace), 'placeholder Job')}."])
        for deleted in leftovers.delete_objects():
            say([f"Deleted {deleted}."])
    say(["Nothing of the controller is left but what the installation has created."])
    return Exit.FINE


def _describe(leftovers: Leftovers, name: str, replicas: int | None) -> Iterator[str]:
    """Yield what would be done; missing objects are left out if no further request is needed to know that."""
    yield f"{name}: not found." if replicas is None else f"{name}: {plural(replicas, 'replica')}; to be scaled to 0."
    costs = sum(1 for _ in leftovers.find_pods())
    objects = ", ".join(leftovers.name_objects())
    yield f"To be deleted: the deletion costs of {plural(costs, 'pod')}, placeholder Jobs, {objects}."


@contextmanager
def _taking_back(leftovers: Leftovers, name: str, replicas: int | None) -> Iterator[None]:
    """Scale the Deployment back if the block fails: after half of a cleanup, the controller must run again.

    The same holds if the pod of the cleanup is stopped.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (CliError, ClusterError, LeaseUnavailable, ReadFailedError, KeyboardInterrupt):
        if replicas:
            try:
                leftovers.scale_controller(replicas)
            except ClusterError as error:
                warn([f"{name} stays scaled to 0, it cannot be scaled back to {replicas}: {error}"])
            else:
                say([f"{name}: scaled back to {replicas}; its ConfigMaps and its Lease were not deleted."])
        raise


def await_free_lease(
    transport: Transport,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until no process leads; CliError if one still renews the Lease long after the Deployment was scaled to 0."""
    lease = KubernetesLease(transport, namespace=settings.namespace, timeout=settings.request_timeout.total_seconds())
    began = clock()
    renewed, since = None, began
    while (record := lease.read()) is not None and record.holder:
        now = clock()
        if record.renewed != renewed:
            renewed, since = record.renewed, now
        duration = record.expires_after(settings.lease_duration.total_seconds())
        if now - since > duration:
            return
        if now - began > duration + _GRACE:
            raise CliError(
                f"{record.holder} still leads: a controller runs that is not of Deployment "
                f"{settings.namespace}/{DEPLOYMENT}. End it, then run this again"
            )
        sleep(_POLL)


def take_back_surges(transport: Transport, namespace: str) -> Iterator[str]:
    """Scale back the workloads to which surges have added pods, and yield a line for each.

    CliError if that is not possible, because deleting the records loses the original numbers.
    """
    surges, scaling = SurgeMap(transport, namespace), Scaling(transport)
    try:
        records = decode_surges(surges.load_if_any())
    except msgspec.DecodeError as error:
        raise CliError(
            f"the records in ConfigMap {namespace}/rebalancer-surges are damaged: {error}. Scale the workloads whose "
            "pods have a deletion cost of the rebalancer to what they ask for, delete it, then run this again"
        ) from error
    for surge in records:
        read = scaling.read_scale(surge.workload)
        if read is None or (read.uid, read.replicas) != (surge.uid, surge.most):
            continue  # nothing was added yet, or another author has set the number
        if surge.phase in {Phase.MARKING, Phase.UNMARKING} or not read.ours:
            continue  # another author has set the number, or it is right already
        answer = scaling.set_replicas(surge.workload, read, surge.count)
        if answer.result is not ScaleResult.SCALED:
            raise CliError(
                f"{surge.workload} has {plural(surge.added, 'pod')} more than the {surge.count} that it asked for, "
                f"and cannot be scaled back: {answer.message}. Scale it to {surge.count}, then run this again"
            )
        yield f"{surge.workload}: scaled back to {surge.count}."


def remove_costs(leftovers: Leftovers) -> int:
    """Remove Rebalancer's own deletion costs from all pods, and return the number of changed pods."""
    removed = 0
    for _ in range(_MOST_PASSES):
        changed = 0
        for pod in leftovers.find_pods():
            answer = leftovers.remove_cost(pod)
            if answer.result is PatchResult.FAILED:
                raise CliError(
                    f"the deletion cost of pod {pod.namespace}/{pod.name} cannot be removed: {answer.message}; the "
                    "right comes with deploy/prevention, in the chart with policy.prevention.scaleDown: Steer"
                )
            removed += answer.result is PatchResult.PATCHED
            changed += answer.result is PatchResult.CONFLICT
        if not changed:
            return removed
    raise CliError("pods change all the time while their deletion costs are removed; run this again")


def delete_placeholders(transport: Transport, namespace: str) -> int:
    """Delete the placeholders' Jobs, and return how many; Jobs that may not be listed end by themselves."""
    store = PlaceholderStore(transport)
    try:
        names = store.list_placeholders(namespace)
    except ReadFailedError as error:
        warn([f"placeholders in {namespace} are not deleted, and end by themselves at their deadline: {error}"])
        return 0
    for name in names:
        store.delete_placeholder(namespace, name)
    return len(names)


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except (ClusterError, LeaseUnavailable, ReadFailedError) as error:
        raise CliError(str(error)) from None
