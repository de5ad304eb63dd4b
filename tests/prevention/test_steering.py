"""From an order to the fewest patches: none where none is needed, and no moment on the way that is worse."""

from random import Random

import pytest

from rebalancer.planning.scope.bounds import Bound
from rebalancer.prevention.order import find_order
from rebalancer.prevention.outcome import find_outcome, is_no_worse, price
from rebalancer.prevention.ranks import HIGHEST
from rebalancer.prevention.scale_down import ScaleDown
from rebalancer.prevention.steering import Steering, removals, steer
from tests.prevention.build import draw_any, draw_nested, make_group, make_rule, spread


def apply(ranks: list[int], steering: Steering) -> list[int]:
    """Apply the patches one by one and check every state on the way."""
    return ranks if not steering.patches else [dict(steering.patches).get(pod, rank) for pod, rank in enumerate(ranks)]


def check(group: ScaleDown, ranks: list[int]) -> Steering:
    steering = steer(group, ranks)
    assert steering.present == find_outcome(group, ranks)
    now, before = list(ranks), steering.present
    for pod, rank in steering.patches:
        assert 1 <= rank <= HIGHEST
        assert now[pod] != rank
        now[pod] = rank
        after = find_outcome(group, now)
        assert is_no_worse(after, before)
        before = after
    assert len(dict(steering.patches)) == len(steering.patches)
    if steering.patches:
        assert price(before) < price(steering.present)
    if not steering.patches and not steering.blocked:
        assert price(before) <= steering.order.price
    if price(before) <= steering.order.price:
        assert not steer(group, now).patches
    return steering


def test_no_patch_makes_any_number_of_remaining_pods_worse_and_a_good_order_is_left_alone() -> None:
    blocked = 0
    for seed in range(1_500):
        random = Random(seed)
        size = random.randint(1, 8)
        group = (draw_nested if seed % 2 else draw_any)(random, size)
        ranks = [0 if random.random() < 0.4 else random.randint(1, 40) for _ in range(size)]
        blocked += check(group, ranks).blocked
    print(f"blocked {blocked} of 1500")
    assert blocked < 300


def test_pods_without_ranks_are_patched_from_the_one_that_stays_longest_on() -> None:
    for seed in range(200):
        random = Random(seed)
        group = draw_nested(random, random.randint(2, 20))
        steering = check(group, [0] * group.size)
        ranks = [rank for _, rank in steering.patches]
        assert ranks == sorted(ranks, reverse=True)
        assert not steering.blocked


def test_the_first_pods_need_no_rank() -> None:
    """Of nine pods in three zones it does not matter which of the first three goes first."""
    steering = check(spread([0, 0, 0, 1, 1, 1, 2, 2, 2]), [0] * 9)
    assert len(steering.patches) <= 7


def test_a_lost_pod_and_its_replacement_take_one_patch() -> None:
    """One per zone and turn; the pod of zone 1 that would have stayed is replaced by another one there."""
    zones = [0, 1, 2, 0, 1, 2, 0, 1, 2]
    ranks = [900, 800, 700, 600, 500, 400, 300, 200, 100]
    lost = [*ranks]
    lost[1] = 0
    steering = check(spread(zones), lost)
    assert len(steering.patches) == 1
    assert steering.patches[0][0] == 1


@pytest.mark.parametrize(("zones", "nodes", "pods"), [(3, 10, 30), (3, 4, 30), (3, 4, 33), (2, 5, 25), (4, 3, 42)])
def test_a_pod_start_takes_little_more_than_one_patch_however_many_pods_share_a_node(
    zones: int, nodes: int, pods: int
) -> None:
    """Pods are lost and replaced where kube-scheduler would place them, with maxSkew 1 over zones and nodes."""
    random = Random(1)
    where: list[int] = []

    def place() -> None:
        by_zone = [sum(node // nodes == zone for node in where) for zone in range(zones)]
        by_node = [where.count(node) for node in range(zones * nodes)]
        possible = [
            node
            for node in range(zones * nodes)
            if by_zone[node // nodes] == min(by_zone) and by_node[node] == min(by_node)
        ]
        wider = [node for node in range(zones * nodes) if by_zone[node // nodes] == min(by_zone)]
        where.append(random.choice(possible or wider))

    for _ in range(pods):
        place()
    ranks, patched, starts = [0] * pods, 0, 100
    for start in range(starts + 1):
        if start:
            lost = random.randrange(pods)
            del where[lost], ranks[lost]
            place()
            ranks.append(0)
        while True:
            steering = check(spread([node // nodes for node in where], where), ranks)
            if not steering.patches:
                break
            patched += len(steering.patches) if start else 0
            ranks = apply(ranks, steering)
    print(f"{patched / starts:.2f} patches a start")
    assert patched <= 1.2 * starts


def test_an_order_without_violation_is_reached_from_any_ranks_wherever_there_is_one() -> None:
    reached = 0
    for seed in range(300):
        random = Random(seed)
        zones, nodes = 3, 4
        size = random.choice([6, 9, 12])
        where = [(pod % zones, pod % zones * nodes + pod // zones % nodes) for pod in range(size)]
        group = spread([zone for zone, _ in where], [node for _, node in where])
        ranks = [0 if random.random() < 0.2 else random.randint(1, HIGHEST) for _ in range(size)]
        assert find_order(group).price == (0, 0)
        now = ranks
        for _ in range(5):
            now = apply(now, check(group, now))
        reached += price(find_outcome(group, now)) == (0, 0)
    assert reached == 300


def test_removing_the_ranks_begins_with_the_pods_that_go_first() -> None:
    group = spread([0, 0, 1, 1, 2, 2])
    ranks = [1, 4, 2, 5, 3, 6]
    assert removals(ranks) == (0, 2, 4, 1, 3, 5)
    remaining = list(ranks)
    remaining_pods = group.size
    for pod in removals(ranks):
        remaining[pod] = 0
        remaining_pods -= 1
        outcome = find_outcome(group, remaining)
        assert outcome[: remaining_pods + 1] == (0,) * (remaining_pods + 1)


def test_a_group_without_rules_is_left_alone() -> None:
    assert not steer(make_group(make_rule([0, 1, 0], Bound())), [0, 0, 0]).patches
