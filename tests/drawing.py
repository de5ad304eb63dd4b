"""How many examples tests draw: a profile of Hypothesis decides, for properties and for loops over seeds alike.

A test names the number that CI draws (profile `ci`, which CI=true chooses). `make test` draws a part of it (`default`),
and `--hypothesis-profile=thorough` ten times as many.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from hypothesis import HealthCheck, Phase, settings

Case = TypeVar("Case")

USUAL: Final = 100
"""The examples of a property that names no number."""
SHARES: Final = {"default": 0.2, "ci": 1.0, "thorough": 10.0, "unshrunk": 1.0}
"""What part of the examples that a test names is drawn, by profile."""


def register_profiles() -> None:
    """Declare the profiles to Hypothesis."""
    for name, share in SHARES.items():
        settings.register_profile(name, max_examples=round(USUAL * share), deadline=None)
    # The same examples each time: nobody meets a failure that somebody else has left.
    fixed = settings(settings.get_profile("ci"), derandomize=True, database=None)
    settings.register_profile("ci", fixed, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
    # For whoever asks only whether a test fails (tools/mutation.py).
    settings.register_profile("unshrunk", fixed, phases=(Phase.explicit, Phase.generate))


def scaled(count: int) -> int:
    """Return how many of `count` examples or seeds are drawn in this run, at least one."""
    return max(1, round(count * SHARES[settings.get_current_profile_name()]))


def examples(count: int = USUAL) -> settings:
    """Return the decorator of a property that draws `count` examples in CI."""
    return settings(max_examples=scaled(count))


def sampled(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that a run tries: all in CI, by default every fifth, over the whole list."""
    cases = list(cases)
    wanted = min(scaled(len(cases)), len(cases))
    return [cases[number * len(cases) // wanted] for number in range(wanted)]
