"""The Suggestion document: which spread constraints give a share limit, whether they guarantee it, and what they cost.

A skew bound is no cap. `maxSkew` s holds the fullest domain of n pods within s for sure only over n - s + 1 domains;
over fewer a smaller one may do (docs/semantics.md, 5.1).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final

import yaml
from msgspec import Meta

from rebalancer.advice.deadlock_games import GameResult, TooLargeError, play
from rebalancer.assessment.guarantees import most_under
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import FREE, Bound, make_inner
from rebalancer.policy import Share
from rebalancer.reporting.documents import API_VERSION, Number, Text, Written
from rebalancer.reporting.limit_text import aligned
from rebalancer.reporting.phrases import many

_MOST_GAMES: Final = 4
"""Larger and larger values of maxSkew that are tried."""

_MOST_SHOWN: Final = 12
"""Replica counts that a table lists."""

MaxSkew = Annotated[int, Meta(ge=1)]


class SuggestedConstraint(Written, frozen=True, kw_only=True):
    """A constraint over all the pods that the limit is about.

    `most` is what one domain can hold while it is satisfied. `guaranteed`: that is within the limit, as it is from
    `domainsNeeded` domains on; null where no number of domains would do, as for a soft one.
    """

    topology_key: Text
    max_skew: MaxSkew
    when_unsatisfiable: Text
    most: Number
    guaranteed: bool
    domains_needed: Number | None


class SimulatedGroups(Written, frozen=True, kw_only=True):
    """Groups that keep their own pods apart, under the tightest constraint that is suggested, of this `maxSkew`.

    `ways` in which their pods can be placed one after the other, and how many of these are `stuck`: a pod is left that
    no node admits. `freeFrom` is the least maxSkew with which none is. Null where that was too much to try.
    """

    size: Number
    max_skew: MaxSkew
    ways: Number | None
    stuck: Number | None
    free_from: MaxSkew | None


class SuggestionDocument(Written, frozen=True, kw_only=True):
    """A suggestion. `guaranteed` and `domainsNeeded` are those of the tightest hard constraint, the one to be pasted.

    The first of `constraints` is the loosest that can be enough. `cap` is the most that a domain may hold.
    `attainable`: some placement is within the limit. `unscalable` are the numbers of pods up to `size` with which none
    is, so that scaling through them breaks limit or constraint.
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


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for. `zones` are the domains in each larger one; one number where there is none larger."""

    share: Share
    size: int
    zones: tuple[int, ...]
    key: str
    group_size: int | None = None

    @property
    def domains(self) -> int:
        """The number of domains."""
        return sum(self.zones)


def suggestion(wish: Wish) -> SuggestionDocument:
    """Work out what gives a limit."""
    cap = wish.share.cap(wish.size)
    loosest = max(1, cap)
    hard = [_constraint(wish, loosest, cap)]
    tighter = next(
        (each for each in range(loosest - 1, 0, -1) if most_under(wish.size, wish.domains, each) <= cap), None
    )
    if not hard[0].guaranteed and tighter is not None:
        hard.append(_constraint(wish, tighter, cap))
    soft = SuggestedConstraint(
        topology_key=wish.key,
        max_skew=1,
        when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY,
        most=wish.size,
        guaranteed=False,
        domains_needed=None,
    )
    pasted = hard[-1]
    return SuggestionDocument(
        limit=str(wish.share),
        size=wish.size,
        domains=wish.domains,
        topology_key=wish.key,
        cap=cap,
        attainable=cap * wish.domains >= wish.size,
        constraints=(*hard, soft),
        guaranteed=pasted.guaranteed,
        domains_needed=pasted.domains_needed,
        deadlock=_simulated(wish, pasted.max_skew),
        unscalable=tuple(unscalable(wish, (None, pasted.max_skew))),
    )


def _constraint(wish: Wish, max_skew: int, cap: int) -> SuggestedConstraint:
    most = most_under(wish.size, wish.domains, max_skew)
    # The least number of domains d with max_skew + (n - max_skew) // d <= cap.
    needed = (wish.size - max_skew) // (cap - max_skew + 1) + 1 if cap >= max_skew else None
    return SuggestedConstraint(
        topology_key=wish.key,
        max_skew=max_skew,
        when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
        most=most,
        guaranteed=most <= cap,
        domains_needed=needed,
    )


def _simulated(wish: Wish, max_skew: int) -> SimulatedGroups | None:
    if wish.group_size is None:
        return None
    zones = wish.zones if len(wish.zones) > 1 else (1,) * wish.domains
    games: list[GameResult] = []
    with suppress(TooLargeError):
        while len(games) < _MOST_GAMES and (not games or games[-1].stuck):
            games.append(play(zones, wish.size // wish.group_size, wish.group_size, max_skew + len(games)))
    free = bool(games) and not games[-1].stuck
    return SimulatedGroups(
        size=wish.group_size,
        max_skew=max_skew,
        ways=games[0].ways if games else None,
        stuck=games[0].stuck if games else None,
        free_from=max_skew + len(games) - 1 if free else None,
    )


def unscalable(wish: Wish, skews: tuple[int | None, int]) -> Iterator[int]:
    """Yield the numbers of pods that no arrangement holds within limit and constraints.

    `skews` are the maxSkew over the larger domains, None for no such constraint, and over the domains themselves.
    """
    outer, own = skews
    for pods in range(1, wish.size + 1):
        bounds = (FREE if outer is None else Bound(max_skew=outer), Bound(max_skew=own, cap=wish.share.cap(pods)))
        places = make_inner(make_inner(((0, 0, pods, 0),) * number) for number in wish.zones)
        if min_evictions(places, bounds, pods) is None:
            yield pods


def suggestion_text(document: SuggestionDocument) -> str:
    """Show a suggestion, and what to paste."""
    place = f"{many(document.domains, 'domain')} of {document.topology_key}"
    lines = [f'"{document.limit}" of {many(document.size, "pod")} over {place}: at most {document.cap} in one.']
    if not document.attainable:
        lines.append(f"No placement over so few domains holds it: {document.domains} times {document.cap} is less.")
    rows = [("MAXSKEW", "AT WORST", "GUARANTEED HERE", "GUARANTEED FROM")]
    hard = [each for each in document.constraints if each.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE]
    rows += [
        (
            str(each.max_skew),
            str(each.most),
            "yes" if each.guaranteed else "no",
            many(each.domains_needed, "domain") if each.domains_needed else "no number of domains",
        )
        for each in hard
    ]
    lines += ["", *aligned(rows)]
    if document.unscalable:
        listed = ", ".join(map(str, document.unscalable[:_MOST_SHOWN]))
        more = len(document.unscalable) - _MOST_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        lines += ["", f"Numbers of pods up to {document.size} that cannot be within it: {listed}{rest}."]
    lines += _deadlock(document)
    return "\n".join([*lines, "", *_pasted(document, hard[-1]), ""])


def _deadlock(document: SuggestionDocument) -> Sequence[str]:
    found = document.deadlock
    if found is None:
        return ()
    who = f"With maxSkew {found.max_skew} groups of {found.size} that keep apart"
    if found.ways is None or found.stuck is None:
        return "", f"{who}: too many placements to try; smaller numbers show the pattern."
    if found.stuck:
        free = f"; from maxSkew {found.free_from} on they cannot" if found.free_from else ""
        return "", f"{who} can deadlock: {found.stuck} of {many(found.ways, 'way')} to place them{free}."
    return "", f"{who} cannot deadlock: none of {many(found.ways, 'way')} to place them does."


def _pasted(document: SuggestionDocument, hard: SuggestedConstraint) -> Sequence[str]:
    """Write the constraints to paste: the tightest that was suggested, and the soft one where that is stricter."""
    chosen = [hard] if hard.max_skew == 1 else [hard, document.constraints[-1]]
    written = [
        {
            "topologyKey": each.topology_key,
            "maxSkew": each.max_skew,
            "whenUnsatisfiable": str(each.when_unsatisfiable),
            "labelSelector": {"matchLabels": {"LABEL": "VALUE"}},
        }
        for each in chosen
    ]
    text: str = yaml.safe_dump({"topologySpreadConstraints": written}, sort_keys=False)
    comments = ("LABEL: VALUE stands for labels that all of the pods have, and no others.", *_caveats(document, hard))
    return *(f"# {each}" for each in comments), *text.splitlines()


def _caveats(document: SuggestionDocument, hard: SuggestedConstraint) -> Iterator[str]:
    """Say what the constraints do not give: they are pasted without the table above them."""
    pods, domains = many(document.size, "pod"), many(document.domains, "domain")
    if hard.domains_needed is None:
        yield f'They do not give "{document.limit}" over any number of domains: it allows none of {pods}.'
    elif not hard.guaranteed:
        yield f'They do not guarantee "{document.limit}" here: one of {domains} may hold {hard.most},'
        yield f"the most allowed is {document.cap}. They do from {many(hard.domains_needed, 'domain')} on."
    found = document.deadlock
    if found is None:
        return
    groups = f"groups of {found.size} that keep apart"
    if found.stuck is None:
        yield f"Whether {groups} can deadlock with them was too much to try."
    elif found.stuck:
        free = f" maxSkew {found.free_from} does not let them." if found.free_from else ""
        yield f"With them {groups} can deadlock, a pod waits for ever.{free}"
