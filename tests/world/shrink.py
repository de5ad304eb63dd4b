"""A smaller run that still fails: without the disturbances that it does not need, with fewer replicas, for less time.

Delta debugging (Zeller and Hildebrandt, 2002): disturbances are left out in halves, then in quarters, and so on down to
single ones, as long as the same promise is broken. About n log n runs for n disturbances, each of a second or less.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from shlex import quote

from tests.world.schedule import WHOLE, Cut
from tests.world.world import Result, run


def shrink(failed: Result, scenario: str = "", cut: Cut = WHOLE) -> tuple[Cut, Result]:
    """Return a smaller run of the seed of a failed one that breaks the same promise first, and its result."""
    best, result = cut, failed
    promise = _name_promise(failed)

    def fails(candidate: Cut) -> bool:
        nonlocal best, result
        tried = run(failed.seed, scenario, candidate)
        if _name_promise(tried) != promise:
            return False
        best, result = candidate, tried
        return True

    for replicas in range(1, failed.replicas):
        if fails(replace(best, replicas=replicas)):
            break
    for part in (1 / 8, 1 / 4, 1 / 2, 3 / 4):
        if fails(replace(best, chaos=cut.chaos * part)):
            break
    numbers = best.disturbances if best.disturbances is not None else tuple(range(failed.disturbances))
    leave_out(numbers, lambda left: fails(replace(best, disturbances=left)))
    return best, result


def _name_promise(result: Result) -> str:
    """Return the words of the first breach that are no names and no numbers, "" if there is none."""
    words = result.breaches[0].split()[1:] if result.breaches else []
    return " ".join(word for word in words if word.isalpha())


def leave_out(numbers: Sequence[int], fails: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Return a part of the numbers that fails, of which no single one can be left out."""
    left, size = tuple(numbers), max(1, len(numbers) // 2)
    while left:
        position, shorter = 0, False
        while position < len(left):
            candidate = left[:position] + left[position + size :]
            if fails(candidate):
                left, shorter = candidate, True
            else:
                position += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return left


def command(seed: int, scenario: str, cut: Cut, removed: str = "") -> str:
    """Return the command that repeats a run."""
    parts = ["python -m tests.world", str(seed)]
    parts += [f"--scenario {quote(scenario)}"] if scenario else []
    parts += [f"--without {quote(removed)}"] if removed else []
    return " ".join([*parts, cut.flags]).strip()
