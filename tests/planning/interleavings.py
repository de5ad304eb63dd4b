"""Every order in which pods can go and come, on plain counts: what can become of a set of evictions.

It shares no code with the planner and prunes nothing. A node is (pods, most that it holds, how many of them are to go);
zones and nodes without names, so that equal states are one.
"""

from collections.abc import Iterator

Node = tuple[int, int, int]
Zones = tuple[tuple[Node, ...], ...]
Required = tuple[int | None, int | None, int]
"""The maxSkew that the scheduler enforces, and the most and the least that a limit allows; None where nothing is."""
Requirements = tuple[Required, Required]
"""What is required of zones and of nodes."""


def fault(zones: Zones, pending: int, both: Requirements) -> str | None:
    """Return what can go wrong; None if it is a step in whatever order, and so is each part of it.

    No pod may ever find no node, also while some have still to go; whenever nothing is pending, nothing may be worse
    than at the beginning; and when all have gone and come, everything must hold.
    """
    start = _sorted(zones), pending
    worst = _excess(zones, both)
    seen, open_ = {start}, [start]
    while open_:
        now, waiting = open_.pop()
        following = [(after, waiting + 1) for after in _gone(now)]
        if waiting:
            landed = [(after, waiting - 1) for after in _landed(now, both)]
            if not landed:
                return f"stuck: {now}"
            following += landed
        elif any(excess > before for excess, before in zip(_excess(now, both), worst, strict=True)):
            return f"worse: {now}"
        elif not following and any(_excess(now, both)):
            return f"violated: {now}"
        for state in following:
            if state not in seen:
                seen.add(state)
                open_.append(state)
    return None


def _excess(zones: Zones, both: Requirements) -> tuple[int, ...]:
    totals = [sum(held for held, _, _ in zone) for zone in zones]
    nodes = [held for zone in zones for held, _, _ in zone]
    results = []
    for counts, (skew, most, lowest) in zip((totals, nodes), both, strict=True):
        results.append(0 if skew is None else max(0, max(counts) - min(counts) - skew))
        results.append(0 if most is None else max(0, max(counts) - most))
        results.append(max(0, lowest - min(counts)))
    return tuple(results)


def _gone(zones: Zones) -> Iterator[Zones]:
    for place, zone in enumerate(zones):
        for node, (held, cap, going) in enumerate(zone):
            if going:
                yield _with(zones, place, node, (held - 1, cap, going - 1))


def _landed(zones: Zones, both: Requirements) -> Iterator[Zones]:
    (zone_skew, _, _), (node_skew, _, _) = both
    totals = [sum(held for held, _, _ in zone) for zone in zones]
    low_zone, low_node = min(totals), min(held for zone in zones for held, _, _ in zone)
    for place, zone in enumerate(zones):
        if zone_skew is not None and totals[place] + 1 - low_zone > zone_skew:
            continue
        for node, (held, cap, going) in enumerate(zone):
            if held < cap and (node_skew is None or held + 1 - low_node <= node_skew):
                yield _with(zones, place, node, (held + 1, cap, going))


def _with(zones: Zones, place: int, node: int, changed: Node) -> Zones:
    zone = zones[place]
    return _sorted((*zones[:place], (*zone[:node], changed, *zone[node + 1 :]), *zones[place + 1 :]))


def _sorted(zones: Zones) -> Zones:
    return tuple(sorted(tuple(sorted(zone)) for zone in zones))
