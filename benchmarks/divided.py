"""A small model of several controllers, each with a part of the namespaces, to see from which size on it pays.

    python -m benchmarks.divided

Nothing of it is built. In the model each of N processes watches the pods of its own namespaces and all nodes, has a
Lease of its own, and a fixed part, 1/N, of the budgets that hold for the whole cluster (`perMinute`, `perCycle`). What
a process takes is computed from measured costs per pod and per node. Namespaces have sizes drawn from a heavy tail, and
violations come where they come: after the loss of a zone everywhere, else in a few namespaces. So the model shows what
a fixed part costs: a process whose namespaces need most of the repairs has only its part of the rate.
"""

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

MICROSECONDS_A_POD: Final = 72.0
"""Processor time to list, decode and store a pod, and to assess and plan it once: docs/results.md."""

BYTES_A_POD, BYTES_A_NODE, BYTES_A_PROCESS = 2_000, 4_000, 65_000_000
"""Memory, from the same page."""

PODS_A_NODE: Final = 30
PER_MINUTE: Final = 60
SIZES: Final = (150_000, 450_000, 1_000_000, 3_000_000)
PROCESSES: Final = (1, 2, 4)


@dataclass(frozen=True, kw_only=True)
class Divided:
    """What N processes take: seconds to the first plan, MiB of the largest and of all, minutes of repairs."""

    seconds: float
    largest: float
    together: float
    minutes_everywhere: float
    minutes_in_one_namespace: float


def draw_namespaces(choice: Random, pods: int) -> list[int]:
    """Draw the sizes of namespaces, with a heavy tail: a few have a tenth of all pods."""
    weights = [choice.paretovariate(1.2) for _ in range(max(20, pods // 1_000))]
    whole = sum(weights)
    return [round(pods * weight / whole) for weight in weights]


def divide(sizes: Sequence[int], processes: int) -> list[list[int]]:
    """Give each namespace, the largest first, to the process with the fewest pods."""
    heap = [(0, number) for number in range(processes)]
    parts: list[list[int]] = [[] for _ in range(processes)]
    for size in sorted(sizes, reverse=True):
        held, number = heapq.heappop(heap)
        parts[number].append(size)
        heapq.heappush(heap, (held + size, number))
    return parts


def simulate(pods: int, processes: int, seed: int = 1) -> Divided:
    """Play the model: a third of the pods has to move after the loss of a zone, or half of one namespace's."""
    sizes = draw_namespaces(Random(seed), pods)
    parts = divide(sizes, processes)
    fullest = max(sum(part) for part in parts)
    nodes = pods / PODS_A_NODE
    fixed = BYTES_A_PROCESS + nodes * BYTES_A_NODE
    rate = max(1, PER_MINUTE // processes)
    return Divided(
        seconds=fullest * MICROSECONDS_A_POD / 1e6,
        largest=(fixed + fullest * BYTES_A_POD) / 2**20,
        together=(processes * fixed + pods * BYTES_A_POD) / 2**20,
        minutes_everywhere=max(sum(part) / 3 / rate for part in parts),
        minutes_in_one_namespace=max(sizes) / 2 / rate,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.divided", description=__doc__)
    parser.parse_args(arguments)
    print("| pods | processes | start s | largest MiB | together MiB | repair everywhere | repair of one namespace |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for pods in SIZES:
        for processes in PROCESSES:
            made = simulate(pods, processes)
            print(
                f"| {pods:,} | {processes} | {made.seconds:.1f} | {made.largest:,.0f} | {made.together:,.0f} "
                f"| {made.minutes_everywhere / 60:,.1f} h | {made.minutes_in_one_namespace / 60:,.1f} h |"
            )


if __name__ == "__main__":
    main()
