"""`rebalancer simulate`: what would happen, on a simulated copy of the cluster."""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from rebalancer.assessment.causes import find_causes
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.name_hints import nearest_name
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.cli import logs
from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.files import read_bytes, source_name
from rebalancer.cli.live import add_live_arguments, watching
from rebalancer.cli.load import load_cluster, load_profile
from rebalancer.cli.options import ReadOptions, add_read_arguments
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.progress import progress
from rebalancer.cli.resilience import lose_domains, write_losses
from rebalancer.documents.document import workload_name
from rebalancer.documents.report import report_document
from rebalancer.documents.resilience import losses_changed
from rebalancer.documents.simulation import (
    FewestReady,
    LeastHeadroom,
    MostWithoutNode,
    SimulatedEvent,
    SimulationDocument,
    SimulationStep,
    WorstMoments,
)
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.policy import Policy, ScaleDownPrevention, default_policy
from rebalancer.reporting.text.simulation import simulation_text
from rebalancer.resilience.comparison import compare_losses
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.simulator.changes import Change, parse_change
from rebalancer.simulator.play import ImpossibleChangeError, Outcome, Play, simulated_policy, with_prevention
from rebalancer.simulator.scenario import (
    BUILTIN,
    Scenario,
    ScenarioError,
    list_shipped,
    load_scenario,
    shipped_scenario,
)
from rebalancer.simulator.story import Story

_FLAGS: Final = (
    ("remove-node", "NODE", "a node is lost, with its pods"),
    ("add-node", "NODE=LABEL=VALUE,…", "a node joins, like the node with most of these labels"),
    ("cordon", "NODE", "a node is cordoned"),
    ("remove-domain", "KEY=VALUE", "all nodes with a label are lost, with their pods"),
    ("restore-domain", "KEY=VALUE", "the lost nodes with a label come back, empty"),
    ("scale", "NAMESPACE/KIND/NAME=N", "a Deployment, StatefulSet or ReplicaSet gets N replicas"),
)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    changes = parser.add_argument_group(
        "what happens", "In the given order, each once nothing moves any more after the one before it."
    )
    for name, metavar, text in _FLAGS:
        changes.add_argument(
            f"--{name}",
            dest="changes",
            action="append",
            metavar=metavar,
            type=_parse_with(name),
            help=text,
        )
    add_scenario_argument(changes)
    changes.add_argument(
        "--each",
        dest="every_domain_of",
        metavar="KEY",
        help="instead, and without playing anything, what `rebalancer resilience` says: what is left of each workload "
        "when a domain of this topology key is lost",
    )
    parser.add_argument(
        "--prevention",
        metavar="MODE",
        choices=[str(mode) for mode in ScaleDownPrevention],
        help="simulate with this prevention.scaleDown: Off, Observe or Steer (default: the policy's)",
    )
    add_seed_argument(parser)
    live = parser.add_argument_group("to watch it", "Before the result is printed.")
    add_live_arguments(live)
    add_read_arguments(parser, formats=("table", "wide", "json", "yaml"))


def add_scenario_argument(parser: argparse._ActionsContainer, default: str | None = None) -> None:
    """Declare --scenario."""
    shown = f" (default: {default})" if default is not None else ""
    parser.add_argument(
        "--scenario",
        metavar="FILE",
        default=default,
        help=f"what happens, as YAML, after the flags; - is standard input; shipped are {list_shipped()}{shown}",
    )


def add_seed_argument(parser: argparse._ActionsContainer) -> None:
    """Declare --seed."""
    parser.add_argument(
        "--seed",
        metavar="NUMBER",
        type=int,
        default=1,
        help="decides delays, names and the scheduler's choice among equal nodes (default: 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Print what happens; only the copy in memory is changed."""
    logs.configure_logs(level="error", form="console")  # the events say what the loop would log
    scenario = _read_scenario(args)
    own = default_policy() if scenario.snapshot is not None else None
    options = ReadOptions.of(args, policy=scenario.policy or own)
    _check_flags(args, options, scenario)
    _check_live_flags(args)
    if args.every_domain_of is not None:
        _lose_each(options, args.every_domain_of)
        return Exit.FINE
    snapshot, policy = _read_cluster(options, scenario)
    if args.prevention is not None:
        policy = with_prevention(policy, ScaleDownPrevention(args.prevention))
    profile, note = load_profile(options), _describe_difference(policy)
    play = scenario.play(seed=args.seed, snapshot=snapshot, policy=policy, profile=profile)
    with _watched(args, scenario, play) if args.live else nullcontext():
        document = _simulation_document(snapshot, _finish(play), args.seed, profile)
        wide = options.output == "wide"
        write_document(document, options.output, lambda: simulation_text(document, note, options.layout, wide=wide))
    return Exit.FINE


def _watched(args: argparse.Namespace, scenario: Scenario, play: Play) -> AbstractContextManager[None]:
    return watching(Story(scenario, play), page_address=args.page_address, waits_for_enter=args.step)


def _check_flags(args: argparse.Namespace, options: ReadOptions, scenario: Scenario) -> None:
    """Raise UsageError if flags contradict each other or the scenario."""
    if args.every_domain_of is not None and (scenario.steps or args.live or args.prevention):
        raise UsageError("--each plays nothing; leave out the other changes, --prevention and --live")
    if options.namespace is not None or not options.selector.empty:
        raise UsageError("simulate plays the whole cluster; leave out -n and -l")
    if scenario.snapshot is not None and (args.snapshot or args.kubeconfig or args.context):
        raise UsageError("the scenario has a cluster of its own; leave out --snapshot, --kubeconfig and --context")


def _check_live_flags(args: argparse.Namespace) -> None:
    """Raise UsageError if flags of --live are given without it."""
    if args.live and args.output in {"json", "yaml"}:
        raise UsageError(f"a live simulation prints tables; leave out -o {args.output}, or simulate without --live")
    if not args.live and (args.step or args.page_address is not None):
        raise UsageError("--step and --page-address need --live")


def _read_cluster(options: ReadOptions, scenario: Scenario) -> tuple[Snapshot, Policy]:
    """Return the snapshot to simulate, from the scenario or from the cluster that the flags name, and its policy."""
    if scenario.snapshot is not None:
        return scenario.snapshot, options.policy
    cluster = load_cluster(options)
    return cluster.snapshot, cluster.policy


def _parse_with(verb: str) -> Callable[[str], Change]:
    def parse(text: str) -> Change:
        try:
            return parse_change(verb, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _read_scenario(args: argparse.Namespace) -> Scenario:
    """Return the scenario of --scenario, if any, after the changes of the flags."""
    name, changes = args.scenario, tuple(args.changes or ())
    if name is None:
        return Scenario(steps=changes)
    if name == "-" and "-" in (args.snapshot or ()):
        raise UsageError("both --scenario and --snapshot read standard input; give one of them as a file")
    try:
        if name.startswith(BUILTIN):
            scenario = shipped_scenario(name.removeprefix(BUILTIN))
        else:
            scenario = load_scenario(_read_file(name), source_name(name))
    except ScenarioError as error:
        raise CliError(str(error)) from None
    return replace(scenario, steps=(*changes, *scenario.steps))


def _read_file(name: str) -> bytes:
    try:
        return read_bytes(name)
    except CliError as error:
        raise CliError(f"{error}; without a file, choose {list_shipped()}") from None


def _describe_difference(policy: Policy) -> str:
    """Say which parts of the policy are simulated differently, "" if none."""
    simulated = simulated_policy(policy)
    parts = []
    if policy.mode is not simulated.mode:
        parts.append(f"mode {simulated.mode} (the policy says {policy.mode})")
    if policy.windows:
        parts.append("with every window open")
    if policy.capacity.mode is not simulated.capacity.mode:
        parts.append("without an autoscaler")
    return f"Simulated {', '.join(parts)}." if parts else ""


def _finish(play: Play) -> Outcome:
    """Play the rest; after --live, nothing is left."""
    with progress("simulating"):
        try:
            return play.run()
        except ImpossibleChangeError as error:
            raise CliError(str(error)) from None


def _lose_each(options: ReadOptions, key: str) -> None:
    """Print what `rebalancer resilience` prints for a key."""
    cluster = load_cluster(options)
    if not cluster.evaluation.view.nodes.groups(key):
        keys = {known for node in cluster.snapshot.nodes for known in node.labels}
        near = min((known for known in keys if known.rpartition("/")[2] == key), default=nearest_name(key, keys))
        raise CliError(f"--each {key}: no node has the label {key}{f'; did you mean {near}?' if near else ''}")
    write_losses(lose_domains(cluster.evaluation.view, [key]), cluster, options)


def _simulation_document(snapshot: Snapshot, outcome: Outcome, seed: int, profile: Profile) -> SimulationDocument:
    effect = compare_losses(View(snapshot, profile), View(outcome.snapshot, profile), outcome.repaired)
    cycle = outcome.cycle
    unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
    report = report_document(
        cycle.assessment,
        cycle.plan,
        find_causes(cycle.assessment, cycle.view, NO_MEMORY),
        find_findings(cycle.view, cycle.assessment, unmatched),
    )
    return SimulationDocument(
        generated_at=get_known_time(snapshot.taken_at),
        seed=seed,
        settled=outcome.settled,
        seconds=outcome.took.total_seconds(),
        cycles=outcome.cycles,
        evictions=outcome.evictions,
        lower_bound=outcome.lower_bound,
        surged=outcome.surged,
        steps=tuple(
            SimulationStep(
                change=step.change,
                at=step.at.total_seconds(),
                evictions=step.evictions,
                lower_bound=step.lower_bound,
                surged=step.surged,
                without_node=step.waiting,
            )
            for step in outcome.steps
        ),
        worst=_worst_moments(outcome),
        events=tuple(
            SimulatedEvent(at=event.at.total_seconds(), what=event.what, object=event.object, detail=event.detail)
            for event in outcome.events
        ),
        report=report,
        resilience=losses_changed(effect),
    )


def _worst_moments(outcome: Outcome) -> WorstMoments:
    return WorstMoments(
        limits=tuple(
            LeastHeadroom(
                group=one.group,
                limit=one.limit,
                namespace=one.namespace,
                key=dict(one.key),
                headroom=one.headroom,
                at=one.at.total_seconds(),
            )
            for one in outcome.headrooms
        ),
        workloads=tuple(
            FewestReady(
                namespace=one.workload.namespace,
                workload=workload_name(one.workload),
                wanted=one.wanted,
                ready=one.ready,
                at=one.at.total_seconds(),
            )
            for one in outcome.readiness
        ),
        without_node=MostWithoutNode(pods=outcome.most_waiting, at=outcome.most_waiting_at.total_seconds()),
    )
