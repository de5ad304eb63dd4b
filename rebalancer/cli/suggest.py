"""`rebalancer suggest`: the findings of `lint` on a share limit, for numbers instead of manifests and a cluster."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.cli.errors import Exit, UsageError
from rebalancer.cli.options import FORMATS, add_color_argument
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_key
from rebalancer.cli.terminal import find_layout
from rebalancer.lint.document import lint_document
from rebalancer.lint.finding import sort_findings
from rebalancer.lint.ground import Ground
from rebalancer.lint.keys import REGION
from rebalancer.lint.limit_rules import check_limits
from rebalancer.lint.manifest import Manifests
from rebalancer.lint.text import lint_text
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import HOSTNAME, ZONE, Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.model.yaml_text import dump_yaml
from rebalancer.policy import Limit, Policy, PolicyGroup, Selector, Share, default_policy

_APP: Final = "app"
"""The label that all pods share."""

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MOST = 5_000
"""The most pods, and the most domains, because every number of pods up to the size is computed."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--limit",
        metavar="SHARE",
        type=_parse_share,
        required=True,
        help='what a domain may hold, such as "<1/3" or "<=1/2"',
    )
    parser.add_argument(
        "--size", metavar="N", type=_parse_number, required=True, help="how many pods the limit is about"
    )
    parser.add_argument(
        "--domains",
        metavar="D",
        type=_parse_zones,
        required=True,
        help="how many domains there are; 2,2,2 for as many in each larger one, such as nodes in each zone",
    )
    parser.add_argument(
        "--key", metavar="KEY", type=parse_key, default=HOSTNAME, help=f"the topology key (default: {HOSTNAME})"
    )
    parser.add_argument(
        "--group-size",
        metavar="G",
        type=_parse_number,
        help="check whether groups of G pods, each separated by its own anti-affinity, can deadlock; they are "
        "separated over the larger domains, if these are given",
    )
    parser.add_argument(
        "--zone-max-skew",
        metavar="S",
        type=_parse_number,
        help=f"the maxSkew of a hard constraint over the larger domains ({ZONE}) too: which sizes the two leave "
        "without a placement, and the smallest change that helps",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=FORMATS,
        default="table",
        help="table, json or yaml (default: table)",
    )
    add_color_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings."""
    if args.group_size is not None and args.size % args.group_size:
        raise UsageError(f"--group-size {args.group_size} does not divide --size {args.size}; choose a divisor")
    apart = len(args.domains) if len(args.domains) > 1 else args.domains[0]
    if args.group_size is not None and args.group_size > apart:
        raise UsageError(
            f"--group-size {args.group_size} is more than the {plural(apart, 'domain')} that its pods "
            f"are separated over; give {apart} at most"
        )
    if args.zone_max_skew is not None and len(args.domains) == 1:
        raise UsageError("--zone-max-skew is about larger domains; give --domains as numbers in each, such as 2,2,2")
    manifests, snapshot, policy = _suppose(args)
    ground = Ground(snapshot, manifests)
    first = manifests.every[0]  # the findings on the other groups are equal
    found = [one for one in check_limits(manifests, ground, policy) if one.manifest is first]
    document = lint_document(sort_findings(found), 1, len(manifests.every))
    write_document(document, args.output, lambda: lint_text(document, find_layout(args.color)))
    return Exit.FINE


def _suppose(args: argparse.Namespace) -> tuple[Manifests, Snapshot, Policy]:
    """Return workloads, a cluster and a policy as the flags describe them."""
    size = args.group_size or args.size
    names = ["pods"] if args.group_size is None else [f"group-{number + 1}" for number in range(args.size // size)]
    larger = REGION if args.key == ZONE else ZONE
    apart = larger if len(args.domains) > 1 else args.key
    spread = [] if args.zone_max_skew is None else [_constrain(larger, args.zone_max_skew)]
    written = "---\n".join(dump_yaml(_deployment(name, size, spread, args.group_size and apart)) for name in names)
    chosen = range(size + 1)  # sizes without a placement are reported up to this size
    read = [replace(one, find_line=lambda _: 1, chosen=chosen) for one in read_manifests(written, "suggest")]
    limit = Limit(name="share", topology_key=args.key, max_share=args.limit)
    group = PolicyGroup(name="pods", selector=Selector(), group_by=(_APP,), limits=(limit,))
    policy = default_policy().model_copy(update={"groups": (group,)})
    return (
        Manifests(tuple(read)),
        Snapshot(taken_at=_NEVER, nodes=tuple(_nodes(args.domains, args.key, larger))),
        policy,
    )


def _deployment(name: str, replicas: int, spread: Sequence[Any], apart: str | None) -> dict[str, Any]:
    """Return a Deployment; `apart` is the topology key of its podAntiAffinity against its own pods, None for none."""
    labels = {_APP: "pods", "group": name} if apart else {_APP: "pods"}
    term = {"topologyKey": apart, "labelSelector": {"matchLabels": {"group": name}}}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {
        "containers": [{"name": "pods", "image": "pods"}],
        **({"topologySpreadConstraints": list(spread)} if spread else {}),
        **({"affinity": required} if apart else {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _constrain(key: str, max_skew: int) -> dict[str, Any]:
    selector = {"matchLabels": {_APP: "pods"}}
    return {
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": str(WhenUnsatisfiable.DO_NOT_SCHEDULE),
        "labelSelector": selector,
    }


def _nodes(domains: Sequence[int], key: str, larger: str) -> Iterator[Node]:
    """Yield a node for each domain of `key`, within the larger domains if there are several levels."""
    for zone, number in enumerate(domains):
        for place in range(number):
            name = f"{zone}-{place}"
            of_larger = {larger: str(zone)} if len(domains) > 1 else {}
            yield Node(name=name, labels=Labels({HOSTNAME: name, key: name, **of_larger}), created=_NEVER)


def _parse_share(text: str) -> Share:
    try:
        return Share.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, {error}") from None


def _parse_number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from 1 to {_MOST}")
    return int(text)


def _parse_zones(text: str) -> tuple[int, ...]:
    zones = tuple(_parse_number(number) for number in text.split(","))
    if sum(zones) > _MOST:
        raise argparse.ArgumentTypeError(f"found {sum(zones)} domains, expected {_MOST} at most")
    return zones
