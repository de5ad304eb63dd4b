"""The verbs, in the order in which `--help` lists them. Modules are known by name only, so listing imports none."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser


class VerbModule(Protocol):
    """The functions of a verb's module."""

    add_arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """A verb: its name, one line about it, its module, and its exit code on Ctrl-C."""

    name: str
    summary: str
    module: str
    interrupted: Exit = Exit.INTERRUPTED

    def load(self) -> VerbModule:
        return cast("VerbModule", import_module(self.module))


VERBS = (
    Verb(
        name="run",
        summary="The controller: watch the cluster, report, and repair what the policy lets it",
        module="rebalancer.cli.run",
        interrupted=Exit.FINE,
    ),
    Verb(
        name="report",
        summary="Every constraint and limit now, and why a violated one is not repaired",
        module="rebalancer.cli.report",
    ),
    Verb(name="plan", summary="What would be evicted, why, and why not more", module="rebalancer.cli.plan"),
    Verb(
        name="explain",
        summary="Why a pod or a workload is, or is not, moved: constraint by constraint, node by node",
        module="rebalancer.cli.explain",
    ),
    Verb(
        name="predict",
        summary="Where kube-scheduler would put a pod: each filter's verdict and the scores, node by node",
        module="rebalancer.cli.predict",
    ),
    Verb(
        name="simulate",
        summary="What would happen: nodes and zones lost or back, workloads scaled, and the repair, in memory",
        module="rebalancer.cli.simulate",
    ),
    Verb(
        name="resilience",
        summary="What is left of each workload when a zone is lost: for certain, and at best",
        module="rebalancer.cli.resilience",
    ),
    Verb(
        name="lint",
        summary="What manifests will do, before they are deployed: rollouts that wedge, drains that never end",
        module="rebalancer.cli.lint",
    ),
    Verb(
        name="suggest",
        summary="Which spread constraints enforce a share limit, whether they guarantee it, and what they cost",
        module="rebalancer.cli.suggest",
    ),
    Verb(
        name="apply",
        summary="Carry out a saved plan, while no controller runs and nothing that it depends on has changed",
        module="rebalancer.cli.apply",
    ),
    Verb(
        name="pause",
        summary="The kill switch: evict nothing until resumed, or for a while",
        module="rebalancer.cli.pause",
    ),
    Verb(name="resume", summary="End a pause", module="rebalancer.cli.resume"),
    Verb(
        name="approve",
        summary="In mode Approve: let the controller carry out the plan that it proposes",
        module="rebalancer.cli.approve",
    ),
    Verb(
        name="status",
        summary="What the controller is doing, did last, and why nothing happens",
        module="rebalancer.cli.status",
    ),
    Verb(
        name="check",
        summary="Before anything moves: rights, policy, guards, budgets, other programs that evict, clocks",
        module="rebalancer.cli.check",
    ),
    Verb(
        name="history",
        summary="What has happened: moves, violations, zones lost, who paused, resumed, approved and led",
        module="rebalancer.cli.history",
    ),
    Verb(
        name="snapshot",
        summary="Dump what the other commands need, without env, secrets or annotations that are not read",
        module="rebalancer.cli.snapshot",
    ),
    Verb(
        name="policy",
        summary="Check a policy file, show the policy with every default, print its JSON Schema",
        module="rebalancer.cli.policy",
    ),
    Verb(
        name="cleanup",
        summary="Before an uninstallation: stop the controller and delete everything that it has written",
        module="rebalancer.cli.cleanup",
    ),
    Verb(
        name="demo",
        summary="Watch a zone get lost, come back and be repaired: simulate --live --scenario builtin:zone",
        module="rebalancer.cli.demo",
    ),
    Verb(
        name="completion",
        summary="Print a script that completes commands and flags in bash, zsh or fish",
        module="rebalancer.cli.completion",
    ),
    Verb(
        name="version",
        summary="Print the versions of the program, of Python, and of the Kubernetes releases that it knows",
        module="rebalancer.cli.version",
    ),
)
