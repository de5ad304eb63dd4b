"""kube-scheduler's search for feasible nodes, played: every order of nodes, start and progress of its workers.

A slow oracle for small lists. Nodes that cannot be told apart are letters: W a wanted node, O another feasible one,
x one that is not feasible.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations, product
from random import Random
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def orders(zones: Sequence[Sequence[Item]]) -> Iterator[tuple[Item, ...]]:
    """Yield each list of nodes that the scheduler may have: any order of zones and within them, and any start."""
    seen = set()
    for arranged in product(*(distinct_orders(tuple(zone)) for zone in zones)):
        for turns in permutations(arranged):
            listed = take_turns(turns)
            for start in range(len(listed)):
                rotated = (*listed[start:], *listed[:start])
                if rotated not in seen:
                    seen.add(rotated)
                    yield rotated


@cache
def distinct_orders(items: tuple[Item, ...]) -> Sequence[tuple[Item, ...]]:
    """Return the orders of items, equal ones not told apart."""
    if not items:
        return [()]
    return [
        (item, *rest)
        for at, item in enumerate(items)
        if items.index(item) == at
        for rest in distinct_orders((*items[:at], *items[at + 1 :]))
    ]


def take_turns(zones: Sequence[Sequence[Item]]) -> list[Item]:
    """Return one node of each zone in turn, until all have run out."""
    return [zone[turn] for turn in range(max(map(len, zones))) for zone in zones if turn < len(zone)]


def samples(
    listed: Sequence[Item], feasible: Mapping[Item, bool], enough: int, chunk: int, workers: int
) -> Iterator[frozenset[int]]:
    """Yield the positions of each sample: a worker at a time examines its next node, or takes the next chunk."""
    pieces = [list(range(first, min(first + chunk, len(listed)))) for first in range(0, len(listed), chunk)]
    seen: set[tuple[frozenset[int], frozenset[tuple[int, ...]], int]] = set()
    states = [(frozenset[int](), frozenset[tuple[int, ...]](), 0)]
    while states:
        state = states.pop()
        if state in seen:
            continue
        seen.add(state)
        found, begun, taken = state
        if len(found) == enough:
            yield found
            continue
        if len(begun) < workers and taken < len(pieces):
            states.append((found, begun | {tuple(pieces[taken])}, taken + 1))
        for left in begun:
            position, rest = left[0], left[1:]
            new = found | {position} if feasible[listed[position]] else found
            states.append((new, begun - {left} | ({rest} if rest else set()), taken))


def avoids(listed: Sequence[str], enough: int, chunk: int, workers: int) -> bool:
    """Say whether `enough` other nodes can be found before any wanted one.

    Every chunk with a wanted node keeps its worker there; all others are finished.
    """
    found = stuck = 0
    for first in range(0, len(listed), chunk):
        if stuck == workers:
            break
        piece = listed[first : first + chunk]
        before = piece.index("W") if "W" in piece else len(piece)
        stuck += before < len(piece)
        found += piece[:before].count("O")
    return found >= enough


def draw_sample(
    listed: Sequence[Item], feasible: Mapping[Item, bool], enough: int, chunk: int, workers: int, random: Random
) -> frozenset[Item]:
    """Return the sample of one search; each worker may be slow, or stopped before a node that it examines late."""
    waiting = [list(listed[first : first + chunk]) for first in range(0, len(listed), chunk)]
    busy: list[list[Item]] = []
    found: list[Item] = []
    late = {item for item in listed if random.random() < random.choice((0, 0, 0.5))}
    while len(found) < enough:
        while len(busy) < workers and waiting:
            busy.append(waiting.pop(0))
        ready = [piece for piece in busy if piece[0] not in late] or busy
        piece = random.choice(ready)
        item = piece.pop(0)
        if feasible[item]:
            found.append(item)
        if not piece:
            busy.remove(piece)
    return frozenset(found)
