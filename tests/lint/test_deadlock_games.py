"""The simulated placement of shards counts what the design's own exhaustive count counts."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.lint import deadlock_games
from rebalancer.lint.deadlock_games import GameResult, GameTooLargeError, play_game
from tests.drawing import examples


def test_three_shards_over_three_zones() -> None:
    """96 of 480 ways deadlock with a maxSkew of 1 for nodes, none of 7,680 with 2."""
    assert play_game((2, 2, 2), 3, 2, skew=1, zone_skew=2) == (480, 96)
    assert play_game((2, 2, 2), 3, 2, skew=2, zone_skew=2) == (7680, 0)


def test_what_would_take_too_long_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so instead."""
    with pytest.raises(GameTooLargeError, match="more than 400 pods"):
        play_game((1,) * 2500, 2, 1000, skew=1)
    with pytest.raises(GameTooLargeError, match="more than 1 states"):
        play_game((1,) * 5000, 2, 2, skew=1)
    monkeypatch.setattr(deadlock_games, "MOST_WORK", 10 * 6**2)
    with pytest.raises(GameTooLargeError, match="more than 10 states"):
        play_game((2, 2, 2), 3, 2, skew=1)


def naive(nodes: tuple[int, ...], groups: int, size: int, skew: int, zone_skew: int | None) -> GameResult:
    """Play pod by pod with a list of places, without memory and without symmetry."""
    places = [(zone, number) for zone, many in enumerate(nodes) for number in range(many)]

    def go(taken: list[tuple[int, int]]) -> GameResult:
        if len(taken) == groups * size:
            return GameResult(1, 0)
        mine = {taken[at][0] for at in range(len(taken) % groups, len(taken), groups)}
        counts = [taken.count(place) for place in places]
        zones = [sum(1 for zone, _ in taken if zone == number) for number in range(len(nodes))]
        results = [
            go([*taken, place])
            for place, count in zip(places, counts, strict=True)
            if count + 1 - min(counts) <= skew
            and place[0] not in mine
            and (zone_skew is None or zones[place[0]] + 1 - min(zones) <= zone_skew)
        ]
        return (
            GameResult(sum(result.ways for result in results), sum(result.stuck for result in results))
            if results
            else GameResult(1, 1)
        )

    return go([])


SHAPES = [shape for many in (1, 2, 3) for shape in product((1, 2), repeat=many)]


@examples(60)
@given(
    st.sampled_from(SHAPES),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(1, 2)),
)
def test_against_every_sequence(
    nodes: tuple[int, ...], groups: int, size: int, skew: int, zone_skew: int | None
) -> None:
    """Symmetry and memory change no count."""
    assert play_game(nodes, groups, size, skew, zone_skew) == naive(nodes, groups, size, skew, zone_skew)
