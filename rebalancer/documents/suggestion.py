"""The Suggestion document: spread constraints for a share limit, what they guarantee, and deadlocks of groups."""

from typing import Annotated

from msgspec import Meta

from rebalancer.advice.suggestion import DeadlockSearch, HardConstraint, SuggestionRequest, suggest
from rebalancer.documents.document import (
    API_VERSION,
    CamelCaseStruct,
    Number,
    SizeRange,
    Text,
    list_ranges,
)
from rebalancer.model.spread import WhenUnsatisfiable

MaxSkew = Annotated[int, Meta(ge=1)]


class SuggestedConstraint(CamelCaseStruct, frozen=True, kw_only=True):
    """A constraint over all the pods that the limit counts.

    `most` is what one domain can hold while it is satisfied. `guaranteed`: that is within the limit, as it is from
    `domainsNeeded` domains on; null where no number of domains is enough, as for a soft one.
    """

    topology_key: Text
    max_skew: MaxSkew
    when_unsatisfiable: Text
    most: Number
    guaranteed: bool
    domains_needed: Number | None


class SimulatedGroups(CamelCaseStruct, frozen=True, kw_only=True):
    """Groups with anti-affinity between their own pods, under the tightest suggested constraint, of this `maxSkew`.

    `ways` counts the outcomes of placing their pods one after the other, `stuck` those that leave a pod that no node
    admits. `freeFrom` is the smallest maxSkew without such an outcome. Null where the search is too large.
    """

    size: Number
    max_skew: MaxSkew
    ways: Number | None
    stuck: Number | None
    free_from: MaxSkew | None


class SuggestionDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A suggestion. `guaranteed` and `domainsNeeded` are those of the tightest hard constraint, the one to use.

    The first of `constraints` is the loosest that can be enough. `cap` is the most that a domain may hold.
    `attainable`: some placement satisfies the limit. `unscalable` are the numbers of pods up to `size` for which none
    does, so that scaling through them violates limit or constraint. `zoneMaxSkew` is that of a hard constraint over the
    larger domains, null without. `impossible` and `unreachable` are the sizes that the constraints leave without a
    placement, or without one that pods which are placed one by one reach; `change` is the smallest change after which
    there are none, empty where there are none now.
    """

    api_version: str = API_VERSION
    kind: str = "Suggestion"
    limit: Text
    size: Number
    domains: Number
    topology_key: Text
    cap: Number
    attainable: bool
    constraints: tuple[SuggestedConstraint, ...]
    guaranteed: bool
    domains_needed: Number | None
    deadlock: SimulatedGroups | None
    unscalable: tuple[int, ...]
    zone_max_skew: MaxSkew | None
    impossible: tuple[SizeRange, ...]
    unreachable: tuple[SizeRange, ...]
    change: str


def suggestion_document(request: SuggestionRequest) -> SuggestionDocument:
    """Compute the suggestion for a limit and convert it to its document."""
    suggestion = suggest(request)
    soft = SuggestedConstraint(
        topology_key=request.key,
        max_skew=1,
        when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY,
        most=request.size,
        guaranteed=False,
        domains_needed=None,
    )
    return SuggestionDocument(
        limit=str(request.share),
        size=request.size,
        domains=request.domains,
        topology_key=request.key,
        cap=suggestion.cap,
        attainable=suggestion.cap * request.domains >= request.size,
        constraints=(*(_suggested_constraint(request.key, hard) for hard in suggestion.constraints), soft),
        guaranteed=suggestion.tightest.guaranteed,
        domains_needed=suggestion.tightest.domains_needed,
        deadlock=_simulated_groups(suggestion.deadlock),
        unscalable=suggestion.unscalable,
        zone_max_skew=request.zone_max_skew,
        impossible=list_ranges(suggestion.sizes.impossible),
        unreachable=list_ranges(suggestion.sizes.unreachable),
        change=suggestion.change,
    )


def _suggested_constraint(key: str, hard: HardConstraint) -> SuggestedConstraint:
    return SuggestedConstraint(
        topology_key=key,
        max_skew=hard.max_skew,
        when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
        most=hard.most,
        guaranteed=hard.guaranteed,
        domains_needed=hard.domains_needed,
    )


def _simulated_groups(search: DeadlockSearch | None) -> SimulatedGroups | None:
    if search is None:
        return None
    return SimulatedGroups(
        size=search.group_size,
        max_skew=search.max_skew,
        ways=search.ways,
        stuck=search.stuck,
        free_from=search.free_from,
    )
