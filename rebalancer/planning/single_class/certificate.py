"""The certificate: arithmetic on the counts shows that the scheduler is forced to complete a repair.

Problem: most repairs need no search, and searching thousands of workloads costs too much. Idea: the
scheduler places a pod only where the domain then holds at most the count of the emptiest domain plus maxSkew. For the
states below it follows from this rule alone that no pod is ever left without a node and that every bound is satisfied
in the end, in every order of evictions and placements and whichever feasible nodes the scheduler picks. The certificate
fixes how many pods leave each domain, not which pods; so the cheapest of a domain are evicted, in any order, and every
part of the victims is a step too.

Example: zones of 6, 6 and 0 pods, maxSkew 1: the windows are at least 4 and at most 4 for each zone that gives; any two
pods of each of the first two may go.

The argument, for maxSkew s over Z zones and h over N nodes, T pods with the pending ones, q = floor(T / Z), k =
floor(T / N). A pod is placed only where the domain then holds at most s, or h, more than the emptiest, and the emptiest
hold at most q and k.

* No pod is stuck. With fewer pods than nodes some node is empty, so a node is free while it holds less than h. If the
  nodes of every zone can hold q + s in this way, the emptiest zone has a free one. With more pods, one is stuck only if
  every open zone has all nodes at m + h, m being the emptiest node, which is in a closed zone. Had that zone given
  pods, it would hold at least k there, and an open zone of n' nodes n'(k + h): more than q. Otherwise it holds at most
  n(m + h) - h on n nodes, and the open one is emptier by s: impossible unless (n - n')(k + h) >= h + s.
* The zones are satisfied. Let no zone that gives pods go below q, and none keep more than q + s. A zone that takes a
  pod then holds at most s more than any zone will in the end. So only a zone that kept H, beside one that never gave
  and holds at most H - s - 1, can violate; with c zones at H that makes at most Z(H - 1) + c - s pods: fewer than T.
  The fullest zones give first, which makes this most certain. With maxSkew 1 any minimal set passes.
* The nodes are satisfied in the same way: a node that gives keeps k, and none keeps more than k + h.

Cost: in proportion to the classes of the tree. The tests compare it with every interleaving of many states.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, cast

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.minimum import Windows, minimum_repair
from rebalancer.planning.single_class.placement import (
    Bounds,
    Inner,
    Leaf,
    Subtree,
    count_domains,
    count_pods,
    count_range,
    is_leaf,
)

_UNKNOWN: tuple[()] = ()


class _Terms(NamedTuple):
    """The numbers of the argument: `zone_skew` is the maxSkew of the coarser key, or of the only key.

    `share` is the most that the emptiest zone can hold, `level` the most that the emptiest node can hold; `host_skew`
    is None if nothing is required of single nodes.
    """

    zone_skew: int
    host_skew: int | None
    total: int
    zones: int
    share: int
    level: int

    @property
    def lowest(self) -> int:
        """The fewest pods that every zone holds once maxSkew is satisfied."""
        return max(0, -(-(self.total - (self.zones - 1) * self.zone_skew) // self.zones))


def certify(root: Inner, bounds: Bounds, pending: int, cache: SearchCache, lost: int = 0) -> Windows | None:
    """Return the windows within which any minimal set of victims is a step; None if that is not known.

    The windows are those of `selection.select_victims`: the least that a domain keeps if a pod leaves it, and the most
    that any domain may keep. `lost` is how many places of every domain other pods may take meanwhile.
    """
    key = root, bounds, pending, lost
    known = cache.certificates.known.get(key, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("Windows | None", known)
    return cast("Windows | None", cache.certificates.store(key, _certify(root, bounds, pending, cache, lost)))


def _certify(root: Inner, bounds: Bounds, pending: int, cache: SearchCache, lost: int) -> Windows | None:
    repair = minimum_repair(root, bounds, pending, cache)
    if repair is None or not repair.evictions:
        return None
    terms = _terms(root, bounds, pending, cache)
    if terms is None:
        return None
    if terms.host_skew is None or terms.total < count_domains(root, 2):
        if not _has_free_nodes(root, terms, lost):
            return None
        # The emptiest zone is then filled first, whichever pods were evicted, so the numbers do not matter.
        if terms.zone_skew == 1:
            return repair.windows
    elif lost or not _always_has_a_free_node(root, terms, terms.host_skew, cache):
        return None
    return _fullest_first(root, terms, repair.evictions, cache)


def _terms(root: Inner, bounds: Bounds, pending: int, cache: SearchCache) -> _Terms | None:
    """Return the terms of one level or two; None if the bounds have another form."""
    skew = bounds[0].max_skew
    if len(bounds) > 2 or skew is None:
        return None
    total, zones = count_pods(root, cache) + pending, count_domains(root, 1)
    nodes = count_domains(root, len(bounds))
    host = bounds[1].max_skew if len(bounds) > 1 else None
    level = total // nodes if host is not None else 0
    terms = _Terms(skew, host, total, zones, total // zones, level)
    implied = _is_implied(bounds[0], terms.share + skew, terms.lowest) and all(
        _is_implied(bound, None if host is None else level + host, 0) for bound in bounds[1:]
    )
    return terms if implied else None


def _is_implied(bound: Bound, most: int | None, lowest: int) -> bool:
    """Return whether the scheduler enforces the required maxSkew, and `most` and `lowest` then imply every limit."""
    if bound.floor_at_zero or bound.by_scheduler != bound.max_skew or bound.least > lowest:
        return False
    return bound.cap is None or (most is not None and most <= bound.cap)


def _has_free_nodes(root: Inner, terms: _Terms, lost: int) -> bool:
    """Return whether every zone has a free node whenever the scheduler may choose it; some node is always empty."""
    return all(_capacity(zone, terms.host_skew) >= terms.share + terms.zone_skew + lost for zone, _ in root)


def _capacity(subtree: Subtree, most: int | None) -> int:
    """Return how many pods a domain can hold with at most `most` on each of its nodes."""
    if is_leaf(subtree):
        cap = subtree[2]
        return cap if most is None else min(cap, most)
    return sum([times * _capacity(child, most) for child, times in subtree])


def _always_has_a_free_node(root: Inner, terms: _Terms, host_skew: int, cache: SearchCache) -> bool:
    """Return whether there is a free node whenever a pod is to be placed, though every node holds pods.

    A pod would be stuck if the emptiest node were in a zone that may take no pod, and the other zones had only nodes
    that are full. A zone whose nodes hold nearly equal counts holds too few pods for that, unless it has more nodes
    than the other zone.
    """
    most = terms.level + host_skew
    sizes = [count_domains(zone, 1) for zone, _ in root]
    if (max(sizes) - min(sizes)) * most >= host_skew + terms.zone_skew or min(sizes) * most <= terms.share:
        return False
    needed = min(most, terms.share + terms.zone_skew)
    for zone, _ in root:
        low, high = count_range(zone, 1, cache)
        if high - low > host_skew:
            return False
        if any(cast("Leaf", node)[2] < needed for node, _ in cast("Inner", zone)):
            return False
    return True


class _Zone(NamedTuple):
    """`times` equal zones. `given` pods must leave each, `held` stay after that, and `more` of them may leave."""

    times: int
    held: int
    given: int
    more: int


def _fullest_first(root: Inner, terms: _Terms, evictions: int, cache: SearchCache) -> Windows | None:
    """Return the windows that take this many victims from the fullest zones; None if the scheduler could waste one."""
    top = None
    if terms.host_skew is not None:
        top = _top_of_nodes(root, terms.host_skew, terms, cache)
        if top is None:
            return None
    zones = _zones_after_giving(root, terms.level, top, cache)
    if zones is None:
        return None
    left = evictions - sum(zone.times * zone.given for zone in zones)
    height = _height_after(zones, left, terms.share)
    floor = max(terms.share, height - 1)
    if not _gives_without_waste(zones, terms, left, height, floor):
        return None
    windows = (floor, height), (terms.level, top)
    return windows[:1] if is_leaf(root[0][0]) else windows


# Many branches: the certificate's conditions in the order of their proof; each failed condition returns.
def _gives_without_waste(zones: Sequence[_Zone], terms: _Terms, left: int, height: int, floor: int) -> bool:
    """Return whether `left` victims can be taken down to `height` without a wasted eviction.

    An eviction is wasted if a zone that no pod can leave any more can hold over maxSkew more than the emptiest zone,
    because the scheduler could place the replacements in the other zones.
    """
    fullest = [zone for zone in zones if zone.held >= height]
    spare = left - _count_above(zones, height)
    giving = sum(zone.times for zone in fullest if min(zone.more, zone.held - floor) > zone.held - height)
    if not 0 <= spare <= giving or any(zone.more < zone.held - height for zone in fullest):
        return False
    if height > terms.share + terms.zone_skew:
        return False
    remaining = sum(zone.times for zone in fullest) - spare
    could_waste = terms.total + terms.zone_skew <= terms.zones * (height - 1) + remaining
    if could_waste and min(zone.held for zone in zones) < height - terms.zone_skew:
        return False
    # With maxSkew 1 a zone that lost too many pods is filled again before any other zone.
    return terms.zone_skew == 1 or not any(zone.given and zone.held < terms.share for zone in zones)


def _top_of_nodes(root: Inner, host_skew: int, terms: _Terms, cache: SearchCache) -> int | None:
    """Return the most that a node may keep so that host maxSkew holds in the end; None if no count guarantees it."""
    zones = [(count_range(zone, 1, cache)[0], count_domains(zone, 1)) for zone, _ in root]
    for top in range(terms.level + host_skew, terms.level - 1, -1):
        if all(low >= top - host_skew or terms.lowest + host_skew > size * (top - 1) for low, size in zones):
            return top
    return None


def _zones_after_giving(root: Inner, level: int, top: int | None, cache: SearchCache) -> Sequence[_Zone] | None:
    """Return the zones once no node keeps more than `top`; None if too many pods cannot move."""
    zones = []
    for zone, times in root:
        given = more = 0
        for leaf, nodes in [(zone, 1)] if is_leaf(zone) else zone:
            held, fixed, _, _ = cast("Leaf", leaf)
            must = 0 if top is None else max(0, held - top)
            if must > held - fixed:
                return None
            given += nodes * must
            more += nodes * (min(held - fixed, max(must, held - level)) - must)
        zones.append(_Zone(times, count_pods(zone, cache) - given, given, more))
    return zones


def _height_after(zones: Sequence[_Zone], left: int, lowest: int) -> int:
    """Return the most that a zone keeps after `left` evictions, each from the fullest zone; at least `lowest`."""
    most = max(zone.held for zone in zones)
    heights = range(lowest, most)
    return lowest + bisect_left(heights, True, key=lambda height: _count_above(zones, height) <= left)


def _count_above(zones: Sequence[_Zone], height: int) -> int:
    return sum(zone.times * max(0, zone.held - height) for zone in zones)
