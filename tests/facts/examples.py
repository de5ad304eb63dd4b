"""Examples of every fact, made from the types of its fields: one in the plural, one in the singular, and further ones.

A fact that is added has both without anybody writing them; what its sentence says besides is added to FURTHER.
"""

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from msgspec import Struct, structs

from rebalancer import admission, assessment, capacity, documents, lint, planning, scheduling
from rebalancer.admission.admit import BackingOff, BreakerOpen
from rebalancer.admission.misplaced import ReplacementMisplaced
from rebalancer.admission.rates import RateReached
from rebalancer.admission.slow_start import ReplacementNotCreated, ReplacementNotRunning, WindowFull
from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.constraint_costs import ConstraintsTooCostly
from rebalancer.assessment.starts import NothingStarts
from rebalancer.assessment.too_large import TooManyTerms
from rebalancer.capacity.decision import CapacityBackingOff, CapacityNeeded, CapacityObserves
from rebalancer.model.breaker import BreakerCause, OpenCause
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.motion import DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import DomainName, OwnFailure, Reference
from rebalancer.model.pods import LocalStorage, LocalVolume, Resources
from rebalancer.planning.by_preemption import PreemptionObstacle
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.diagnosis.obstacles import NoPlacement, NoPlacementOfClasses, PodsStay
from rebalancer.planning.multi_class.proof import BindingRequirement, MultiClassProof
from rebalancer.planning.scope.budgets import (
    MAX_UNAVAILABLE,
    PER_WORKLOAD,
    BudgetExhausted,
    KeptPods,
    StepExceedsBudget,
    WorkloadLimitReached,
)
from rebalancer.planning.scope.eligibility import Annotated, LocalVolumes, MirrorPod, OnDeleteRevision, TooYoung
from rebalancer.planning.scope.lasting import CountsInMotion
from rebalancer.planning.scope.settling import NodeChanged
from rebalancer.planning.search.shares import PlanTooCostly
from rebalancer.planning.single_class.proof import DomainCount, NamedBound, SingleClassProof
from tests.scheduling.build import HOSTNAME, ZONE

NINE = datetime(2026, 7, 12, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
NOTHING = Resources()
CART = Reference("shop", "Deployment", "cart")
MOTION = DomainMotion(
    key=ZONE,
    value="c",
    since=NINE,
    until=NINE + MINUTE,
    moved=NINE + MINUTE,
    lasting=False,
    had=6,
    lost=6,
    events=(NodeEvent.CORDONED,),
    by=("kubectl",),
)
FEWER = structs.replace(
    MOTION, lasting=True, lost=1, had=1, until=NINE, events=(NodeEvent.DELETED, NodeEvent.UNREADY), by=()
)

WORDS = {
    "namespace": "shop",
    "pod": "web-1",
    "node": "c-1",
    "workload": "shop/web (Deployment)",
    "owner": "shop/web (Deployment)",
    "owner_kind": "Deployment",
    "object_kind": "ReplicaSet",
    "key": ZONE,
    "budget": "web-pdb",
    "group": "caches/redis",
    "why": "CrashLoopBackOff",
    "field": "spread.for",
    "plan": "3f2a",
}
"""Values of fields that many facts have; of others the value is their own name."""


for _layer in (scheduling, assessment, planning, capacity, admission, documents, lint):
    for _module in pkgutil.walk_packages(_layer.__path__, f"{_layer.__name__}."):
        importlib.import_module(_module.name)


def all_facts(base: type[Fact] = Fact) -> Iterator[type[Fact]]:
    """Yield every class of facts that the product defines."""
    for fact in base.__subclasses__():
        if fact not in {Refusal, PreemptionObstacle} and fact.__module__.startswith("rebalancer."):
            yield fact
        yield from all_facts(fact)


def example(kind: type[Struct], *, one: bool) -> Any:
    """Return a value of a struct whose numbers all differ, or with `one` are 1; what may be missing is missing then."""
    hints = typing.get_type_hints(kind)
    names = kind.__struct_fields__
    return kind(**{name: _value(name, hints[name], 1 if one else 2 + place) for place, name in enumerate(names)})


def _value(name: str, hint: Any, number: int) -> Any:
    origin, inner, one = typing.get_origin(hint), typing.get_args(hint), number == 1
    if origin is typing.Annotated:
        return _value(name, inner[0], number)
    if origin in {types.UnionType, typing.Union}:
        return None if one else _value(name, inner[0], number)
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_value(name, part, number) for part in inner)
    if origin is tuple:
        texts = (f"{name}-{place}" for place in range(1 if one else 2))
        return tuple(dict.fromkeys(_value(text, inner[0], number) for text in texts))
    simple = {
        bool: not one,
        int: number,
        str: WORDS.get(name, name),
        datetime: NINE + number * MINUTE,
        timedelta: timedelta(seconds=number) if one else 40 * number * MINUTE,
        Fact: MirrorPod(),
        Refusal: MirrorPod(),
    }
    if hint in simple:
        return simple[hint]
    return next(iter(hint)) if issubclass(hint, Enum) else example(hint, one=one)


def _excess(cause: BreakerCause, part: int, total: int, bound: int = 0, **fields: str) -> OpenCause:
    return OpenCause(cause=cause, part=part, total=total, bound=bound, since=NINE, last=NINE, **fields)


FURTHER: tuple[Fact, ...] = (
    Annotated("Pod", "rebalancer.dev/exclude", "true"),
    Annotated("Namespace", "rebalancer.dev/exclude", "true"),
    NothingStarts("c-1", ("shop/web-1", "shop/web-2"), NINE),
    NothingStarts("c-1", ("shop/web-1", "shop/web-2"), NINE, ("OutOfcpu",)),
    LocalVolumes(
        (
            LocalVolume("cache", LocalStorage.EMPTY_DIR),
            LocalVolume("logs", LocalStorage.HOST_PATH),
            LocalVolume("scratch", LocalStorage.EPHEMERAL),
        )
    ),
    OnDeleteRevision("db-1", "", ""),
    BudgetExhausted("web", 5, 5, 5),
    WorkloadLimitReached(8, 1, 0, (), PER_WORKLOAD, 2),
    WorkloadLimitReached(8, 2, 1, (), MAX_UNAVAILABLE, 2),
    WorkloadLimitReached(8, 2, 0, (), MAX_UNAVAILABLE, 2),
    TooManyTerms("topologySpreadConstraints", 17, 16),
    ConstraintsTooCostly("shop", 80_000, 40_000),
    PlanTooCostly("shop", 30_000, 24_000, 24_000),
    PlanTooCostly("shop", 9_000, 4_000, 24_000),
    StepExceedsBudget(3, 0),
    StepExceedsBudget(3, 2),
    StepExceedsBudget(3, 0, "shop/web (Deployment)"),
    StepExceedsBudget(1, 0, "shop/db (StatefulSet)", ("shop/leader",), kept=KeptPods(("db-0 (node a-1)",), 1, 2)),
    KeptPods(("db-0 (node a-1)", "db-1 (node a-2)"), 1, None),
    KeptPods(("db-0 (node a-1)",), 2, 2),
    NodeChanged(NodeChange(NINE, "c-1", NodeEvent.UNCORDONED), None, 5 * MINUTE, NINE),
    NodeChanged(NodeChange(NINE, "c-1", NodeEvent.UNREADY, ZONE, "c"), DomainName(ZONE, "c"), 5 * MINUTE, NINE),
    CountsInMotion(NodeChange(NINE, "c-1", NodeEvent.RELABELLED, ZONE, "b"), 5 * MINUTE, NINE),
    CountsInMotion(NodeChange(NINE, "c-1", NodeEvent.RELABELLED, ZONE, ""), 5 * MINUTE, NINE),
    CountsInMotion(NodeChange(NINE, "c-1", NodeEvent.RELABELLED, ZONE), 5 * MINUTE, NINE),
    CountsInMotion(NodeChange(NINE, "", NodeEvent.RELABELLED), 5 * MINUTE, NINE),
    UnsettledDomain(MOTION, NINE + 5 * MINUTE),
    UnsettledDomain(FEWER, NINE + 60 * MINUTE),
    NodesTakeNoMore(),
    NoPlacement(5, ()),
    NoPlacement(5, (4, 6)),
    NoPlacementOfClasses(6, 2),
    NoPlacementOfClasses(6, 2, excess=2),
    PodsStay(3, "web-1", TooYoung(90 * SECOND, 5 * MINUTE)),
    CapacityNeeded((DomainName(ZONE, "b"), DomainName("rack", "r1"), DomainName(ZONE, "c")), 2, 2, NOTHING, None),
    CapacityNeeded((DomainName(ZONE, "c"),), 2, 2, Resources(cpu=1500, memory=3 << 30), CapacityObserves()),
    CapacityBackingOff(DomainName(ZONE, "c"), "", 2, 0.5 * SECOND),
    ReplacementNotCreated(CART, "web-1", ""),
    ReplacementNotCreated(CART, "web-1", "exceeded quota: pods", OwnFailure.OBJECT),
    ReplacementNotRunning(CART, "web-1", "ImagePullBackOff", False, OwnFailure.IMAGE),
    ReplacementNotRunning(CART, "web-1", "CrashLoopBackOff", True, OwnFailure.TEMPLATE),
    WindowFull("", 4, 2),
    WindowFull("", 2, 0, 2),
    WindowFull("shop", 2, 1, 1),
    WindowFull("shop", 1, 0, 1),
    RateReached("perMinute", 5, 40 * SECOND),
    RateReached("perMinute", 1, 3 * SECOND, waiting=5, last_at=NINE),
    ReplacementMisplaced(CART, "web-1", (), (), NINE),
    BreakerOpen((_excess(BreakerCause.UNREADY_ZONE, 2, 3, 50, zone="c"),), NINE + MINUTE, 5 * MINUTE),
    BreakerOpen(
        (
            _excess(BreakerCause.PENDING_PODS, 30, 100, 20),
            _excess(BreakerCause.API_ERRORS, 6, 10, 50),
            _excess(BreakerCause.FAILED_MOVES, 3, 4, 50),
            _excess(BreakerCause.REPLACEMENTS, 2, 5, note="shop/web: quota exceeded"),
        ),
        NINE,
        5 * MINUTE,
    ),
    BreakerOpen((_excess(BreakerCause.REPLACEMENTS, 1, 1, note="shop/web: quota exceeded"),), NINE, 5 * MINUTE),
    BackingOff(3, None),
    SingleClassProof(
        5,
        (
            NamedBound(ZONE, True, 4, (DomainCount("a", 8), DomainCount("b", 3))),
            NamedBound(HOSTNAME, True, 1, (DomainCount("c-1", 2),)),
            NamedBound(HOSTNAME, False, 1, (DomainCount("b-1", 0),)),
        ),
        missing=False,
        pending=0,
        several=True,
    ),
    SingleClassProof(1, (NamedBound(ZONE, False, 2, (DomainCount("c", 0),)),), True, 1, False),
    MultiClassProof(
        3,
        3,
        (BindingRequirement(ZONE, "", "1", (CART,)), BindingRequirement(HOSTNAME, "caches/half", "maxPods 2", ())),
    ),
    MultiClassProof(3, 3, ()),
    MultiClassProof(4, 3, ()),
)


def examples() -> list[Fact]:
    """Return examples of all facts, those of one class together, sorted by the names of the classes."""
    made = [*(example(kind, one=one) for kind in all_facts() for one in (False, True)), *FURTHER]
    return sorted(dict.fromkeys(made), key=lambda fact: type(fact).__name__)
