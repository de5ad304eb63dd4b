"""Components of 100 nodes that need the integer program: shards, affinities, overlapping selectors."""

from random import Random

from tests.planning.scenes import Constraint, Scene, Work
from tests.scheduling.build import HOSTNAME, ZONE


def hundred_nodes(seed: int, sets: tuple[int, int] = (3, 6)) -> Scene:
    """Draw StatefulSets, 200 pods in all, that count each other; most of them on half of the nodes.

    There are so many of them, from the least to the most.
    """
    choice = Random(seed)
    zones = choice.randint(3, 4)
    nodes = {f"n{number:03}": (f"z{number % zones}", choice.choice([1000, 2000, 4000])) for number in range(100)}
    free = {name: cpu for name, (_, cpu) in nodes.items()}
    crowded = choice.sample(sorted(nodes), 50)
    everywhere = (
        Constraint(key=ZONE, max_skew=choice.choice([1, 2, 3]), label="all"),
        Constraint(key=HOSTNAME, max_skew=choice.choice([2, 3]), label="all"),
    )
    works: list[Work] = []
    many = choice.randint(*sets)
    for number in range(many):
        size = 200 * (number + 1) // many - 200 * number // many
        cpu = choice.choice([100, 200, 300, 500])
        only = choice.sample([f"z{zone}" for zone in range(zones)], 2) if choice.random() < 0.2 else []
        apart = choice.choice(["", "", HOSTNAME, ZONE if size <= zones and not only else HOSTNAME])
        mine = {"all", f"w{number}", *(each for each in ("one", "two") if choice.random() < 0.4)}
        on: dict[str, int] = {}
        for _ in range(size):
            taken = {node if apart == HOSTNAME else nodes[node][0] for node in on} if apart else set()
            open_ = [
                name
                for name in (crowded if choice.random() < 0.8 else sorted(nodes))
                if free[name] >= cpu
                and (not only or nodes[name][0] in only)
                and (name if apart == HOSTNAME else nodes[name][0]) not in taken
            ]
            if open_:
                name = choice.choice(open_)
                on[name] = on.get(name, 0) + 1
                free[name] -= cpu
        own = Constraint(
            key=choice.choice([ZONE, HOSTNAME]), max_skew=choice.choice([1, 2]), label=choice.choice(sorted(mine))
        )
        works.append(
            Work(
                name=f"w{number}",
                cpu=cpu,
                labels=frozenset(mine),
                on=on,
                missing=size - sum(on.values()),
                # Its own constraint where it is on another label; two on one key would be the same question twice.
                constraints=(*everywhere, own) if own.label != "all" else everywhere,
                apart=f"w{number}" if apart else "",
                apart_by=apart or ZONE,
                only=frozenset(only),
            )
        )
    return Scene(nodes=nodes, works=tuple(works))


def shards(
    seed: int, *, sets: int = 66, nodes: int = 100, skew: tuple[int, int] = (1, 1), lost: int | str = "z0"
) -> Scene:
    """Draw a cluster of shards, StatefulSets of two, over three zones; nodes were lost and have come back empty.

    All count each other by zone and by node with these maxSkews, each its own by zone; a shard's two keep to different
    zones; no zone and no node holds more than a limit's share. `lost` is a zone, or how many nodes.
    """
    choice = Random(seed)
    zone = {f"n{number:03}": f"z{number % 3}" for number in range(nodes)}
    names = sorted(zone)
    away = {name for name in names if zone[name] == lost} if isinstance(lost, str) else set(choice.sample(names, lost))
    held = dict.fromkeys((name for name in names if name not in away), 0)
    works = []
    for number in range(sets):
        on: dict[str, int] = {}
        for _ in range(2):
            open_ = [name for name in held if zone[name] not in {zone[other] for other in on}]
            least = min(held[name] for name in open_)
            name = choice.choice([name for name in open_ if held[name] == least])
            on[name] = 1
            held[name] += 1
        every = (
            Constraint(key=ZONE, max_skew=skew[0], label="all"),
            Constraint(key=HOSTNAME, max_skew=skew[1], label="all"),
        )
        works.append(
            Work(
                name=f"w{number}",
                cpu=100,
                labels=frozenset({"all", f"w{number}"}),
                on=on,
                constraints=(*every, Constraint(key=ZONE, max_skew=1, label=f"w{number}")),
                apart=f"w{number}",
            )
        )
    limits = (("all", HOSTNAME, 2 * sets // 3), ("all", ZONE, sets - 1))
    return Scene(nodes={name: (zone[name], 16_000) for name in names}, works=tuple(works), limits=limits)
