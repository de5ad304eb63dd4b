"""Findings about domains in motion: a drain of several nodes, a zonal shift, a zone that fails, reported once.

DomainUnsettled: a domain that loses nodes, or has until a moment ago. Nothing is moved into it until it has settled.
"""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.findings.finding import Finding, list_names
from rebalancer.model.motion import DomainMotion, NodeEvent
from rebalancer.model.reasons import FindingKind

_VERBS = {NodeEvent.CORDONED: "cordoned", NodeEvent.UNREADY: "not Ready any more", NodeEvent.DELETED: "deleted"}


def domain_motion_findings(domains: Iterable[UnsettledDomain]) -> Iterator[Finding]:
    """Yield one finding for each domain that has not settled."""
    for domain in domains:
        name = f"node label {domain.motion.key}={domain.motion.value}"
        yield Finding(kind=FindingKind.DOMAIN_UNSETTLED, object=name, message=describe_unsettled(domain))


def describe_motion(motion: DomainMotion) -> str:
    """Return what has become of how many nodes of a domain, within what time, and who cordoned them."""
    verbs = " or ".join(_VERBS[event] for event in motion.events)
    were = "was" if motion.lost == 1 else "were"
    seconds = round((motion.until - motion.since).total_seconds())
    within = f" within {seconds} s" if seconds else ""
    by = f" by {list_names(motion.by)}" if motion.by else ""
    nodes = "node" if motion.had == 1 else "nodes"
    return f"{motion.lost} of {motion.had} {nodes} of {motion.key}={motion.value} {were} {verbs}{within}{by}"


def describe_unsettled(domain: UnsettledDomain) -> str:
    """Return the same, and until when nothing is moved there."""
    until = f"{domain.until:%Y-%m-%d %H:%M:%SZ}"
    if domain.motion.lasting:
        until = f"they have taken pods again for a while, at most until {until}"
    return f"{describe_motion(domain.motion)}: nothing is moved there until {until}"
