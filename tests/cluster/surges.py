"""Violated Deployments on the real control plane, side by side, and what the watch saw of their pods."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlencode

from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.steps.additions import addition_step
from rebalancer.planning.steps.tree_moves import TreeState
from tests.control_plane.api import Api
from tests.control_plane.layout import Workload, deployment, node, pdb, spread
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import condition
from tests.control_plane.stages import NEVER_READY, READY_AFTER
from tests.faults.history import PodChange
from tests.faults.recorder import PodRecorder
from tests.planning.states import CACHE, Counts, bounds, satisfied, state

LOT: Final = "lot"


@dataclass(frozen=True)
class Lot:
    """A Deployment on nodes of its own, in a namespace of its own: `counts` are its pods by node, a list per zone."""

    name: str
    counts: Counts
    zone: int
    host: int
    budget: int
    ready_after: int

    @property
    def wanted(self) -> int:
        """How many pods it asks for."""
        return sum(map(sum, self.counts))

    @property
    def nodes(self) -> Mapping[str, int]:
        """Its nodes, and how many pods they hold at the beginning."""
        return {
            f"{self.name}-{place}-{number}": held
            for place, zone in enumerate(self.counts)
            for number, held in enumerate(zone)
        }

    def parts(self) -> Iterator[Manifest | Workload]:
        """Yield what is laid out."""
        for name in self.nodes:
            yield node(name, zone=name.rpartition("-")[0], labels={LOT: self.name})
        labels = {"app": self.name}
        yield deployment(
            "web",
            self.nodes,
            namespace=self.name,
            labels=labels,
            annotations={READY_AFTER: f"{self.ready_after}s"},
            nodeSelector={LOT: self.name},
            topologySpreadConstraints=[
                spread(ZONE, labels=labels, max_skew=self.zone),
                spread(HOSTNAME, labels=labels, max_skew=self.host),
            ],
        )
        yield pdb("web", labels, namespace=self.name, max_unavailable=self.budget)

    def now(self, api: Api) -> Counts:
        """Return its pods as they are."""
        pods = api.list(f"/api/v1/namespaces/{self.name}/pods")
        on = Counter(pod["spec"].get("nodeName") for pod in pods if "deletionTimestamp" not in pod["metadata"])
        assert None not in on, f"{self.name}: a pod is pending"
        return [
            [on[f"{self.name}-{place}-{number}"] for number in range(len(zone))]
            for place, zone in enumerate(self.counts)
        ]

    def is_satisfied(self, counts: Counts) -> bool:
        """Return whether both constraints hold."""
        return satisfied(counts, self.zone, self.host)

    def promises(self, counts: Counts, most: int) -> bool:
        """Return whether the planner has a step that adds first."""
        return bool(addition_step(TreeState(state(counts)), bounds(self.zone, self.host), most, CACHE).victims)


def draw_lots(number: int, seed: int, most: int, pods: int = 12) -> list[Lot]:
    """Draw violated lots that a placement satisfies, half with a budget that allows nothing."""
    chance = random.Random(seed)
    lots: list[Lot] = []
    while len(lots) < number:
        counts = [[chance.randint(0, 4) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(2, 3))]
        zone, host = chance.randint(1, 2), chance.randint(1, 3)
        lot = Lot(f"s{seed}-{len(lots)}", counts, zone, host, len(lots) % 2, chance.randint(2, 6))
        least = min_evictions(state(counts), bounds(zone, host), 0, CACHE)
        if 2 <= lot.wanted <= pods and least and lot.promises(counts, most):
            lots.append(lot)
    return lots


_UNREACHABLE: Final[Sequence[tuple[Counts, int, int]]] = (
    ([[4], [3, 1]], 1, 2),
    ([[5], [4, 1]], 1, 3),
    ([[5], [4, 2]], 2, 2),
    ([[3], [2, 2, 0]], 2, 2),
    ([[4], [4], [3, 1]], 1, 2),
    ([[5], [5], [4, 1]], 1, 3),
    ([[5], [5], [4, 2]], 2, 2),
    ([[3], [3], [2, 2, 0]], 2, 2),
    ([[5], [3, 3, 0]], 2, 3),
    ([[5], [5], [3, 3, 0]], 2, 3),
)
"""Pods by node and zone, and maxSkew by zone and host name: a replacement may land where it does not help."""


def unreachable_lots() -> list[Lot]:
    """Return ten lots that no eviction repairs for certain, and an added pod does."""
    return [
        Lot(f"u-{number}", counts, zone, host, number % 2, 2 + number % 5)
        for number, (counts, zone, host) in enumerate(_UNREACHABLE)
    ]


class Spoiler:
    """Lets every so many-th new pod never be Ready: a label keeps KWOK from it, set before it would be."""

    def __init__(self, api: Api, namespaces: Collection[str], every: int) -> None:
        self._api, self._namespaces, self._every = api, namespaces, every
        self._known = {pod["metadata"]["uid"] for pod in self._pods()}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.spoilt: dict[str, list[str]] = {}
        """The pods that never are, by namespace."""

    def _pods(self) -> list[dict[str, Any]]:
        pods = self._api.list("/api/v1/pods")
        return [pod for pod in pods if pod["metadata"]["namespace"] in self._namespaces]

    def _run(self) -> None:
        new = 0
        while not self._ending.wait(0.5):
            for pod in self._pods():
                meta = pod["metadata"]
                if meta["uid"] in self._known:
                    continue
                self._known.add(meta["uid"])
                new += 1
                if new % self._every == 0 and condition(pod, "Ready") != "True":
                    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    self._api.patch(path, {"metadata": {"labels": {NEVER_READY: ""}}})
                    self.spoilt.setdefault(meta["namespace"], []).append(meta["name"])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


@dataclass
class Seen:
    """What the watch saw of the pods of a namespace: the fewest that were Ready, and the most that lived."""

    least_ready: int
    most_alive: int


@contextmanager
def watching(plane: ControlPlane, lots: Iterable[Lot]) -> Iterator[Callable[[Lot], Seen]]:
    """Watch the pods of lots for the time of a block; yield what says what was seen of each."""
    with ExitStack() as stack:
        recorders = {
            lot.name: stack.enter_context(PodRecorder(plane, lot.name, urlencode({"app": lot.name}))) for lot in lots
        }

        def seen_of(lot: Lot) -> Seen:
            recorder = recorders[lot.name]
            assert not recorder.error, recorder.error
            return _replay(recorder.changes, lot.wanted)

        yield seen_of


def _replay(changes: Iterable[PodChange], first: int) -> Seen:
    """Return what was seen from the moment on at which all pods of the beginning are known."""
    known: dict[str, bool] = {}
    seen = Seen(first, first)
    for number, change in enumerate(changes, start=1):
        if change.gone or change.terminating:
            known.pop(change.uid, None)
        else:
            known[change.uid] = change.ready
        if number >= first:
            seen.most_alive = max(seen.most_alive, len(known))
            seen.least_ready = min(seen.least_ready, sum(known.values()))
    return seen
