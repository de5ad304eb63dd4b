"""`rebalancer suggest`: the constraints that enforce a share limit, and what they leave open. Needs no cluster."""

import argparse
import re

from rebalancer.advice.suggestion import SuggestionRequest
from rebalancer.cli.errors import Exit, UsageError
from rebalancer.cli.options import FORMATS, add_color_argument
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_key
from rebalancer.cli.terminal import find_layout
from rebalancer.documents.suggestion import suggestion_document
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.words import plural
from rebalancer.policy import Share
from rebalancer.reporting.text.suggestion import suggestion_text

_MOST = 5_000
"""The most pods, and the most domains: every number of pods up to the size is computed."""


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
        help="check whether groups of so many pods, each separated by its own anti-affinity, can deadlock; they are "
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
    """Print the suggestion."""
    if args.group_size is not None and args.size % args.group_size:
        raise UsageError(f"--group-size {args.group_size} does not divide --size {args.size}; give one that does")
    apart = len(args.domains) if len(args.domains) > 1 else args.domains[0]
    if args.group_size is not None and args.group_size > apart:
        raise UsageError(
            f"--group-size {args.group_size} is more than the {plural(apart, 'domain')} that its pods "
            f"are separated over; give {apart} at most"
        )
    if args.zone_max_skew is not None and len(args.domains) == 1:
        raise UsageError("--zone-max-skew is about larger domains; give --domains as numbers in each, such as 2,2,2")
    document = suggestion_document(
        SuggestionRequest(
            share=args.limit,
            size=args.size,
            zones=args.domains,
            key=args.key,
            group_size=args.group_size,
            zone_max_skew=args.zone_max_skew,
        )
    )
    write_document(document, args.output, lambda: suggestion_text(document, find_layout(args.color)))
    return Exit.FINE


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
