"""Write a plan as JSON, and read back the same plan, given the assessment that it was made from.

Objects of the assessment are written as references: pods by UID, groups, limits and terms by name. Everything else is
written in full, each fact and each fate with its kind. Lazily computed values (outlooks, proofs, relaxations) are
computed on writing. The pods from which a step was chosen are left out.
"""

import types
import typing
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec import Struct

from rebalancer.assessment.assess import Assessment
from rebalancer.model.facts import Fact, fact_kinds
from rebalancer.model.moves import Target
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.relaxation import Relaxable, Relaxation
from rebalancer.planning.eviction import Outlook
from rebalancer.planning.fates import Fate
from rebalancer.planning.plan import Plan, Proof
from rebalancer.planning.scope.components import Component, Counts
from rebalancer.planning.scope.victims import RankedPods

_FATES: Final[Mapping[str, type[Struct]]] = {kind.__name__: kind for kind in typing.get_args(Fate)}


def write_plan(plan: Plan) -> bytes:
    """Write a plan as JSON. Computes its outlooks, proofs and relaxations."""
    return msgspec.json.encode(_write(plan))


# Many branches: one for each kind of value.
def _write(value: object) -> object:
    match value:
        case Pod():
            return value.uid
        case Component():
            names = [group.spread.name for group in value.groups]
            terms = {"terms": [term.name for term in value.terms], "preferred": [term.name for term in value.preferred]}
            return {"groups": names, "limits": [limit.name for limit in value.limits], **terms}
        case Outlook():
            return {"targets": _write(value.targets), "counts": _write(value.counts)}
        case Proof(fact=computed) | Relaxable(relaxation=computed):
            return _write(computed)
        case RankedPods():
            return None
        case Fraction():
            return str(value)
        case Struct():
            kind = {"kind": type(value).__name__} if isinstance(value, (Fact, *_FATES.values())) else {}
            return kind | {name: _write(getattr(value, name)) for name in value.__struct_fields__}
        case tuple():
            return [_write(one) for one in value]
        case Mapping():
            return {key: _write(one) for key, one in value.items()}
    return value


def read_plan(data: bytes, assessment: Assessment, snapshot: Snapshot) -> Plan:
    """Read a plan that was made of this assessment of a snapshot.

    Raises ValueError if the bytes are no plan, or name an object that the snapshot or its assessment does not have.
    """
    try:
        plan: Plan = _Reader(assessment, snapshot).read(msgspec.json.decode(data), Plan)
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not a plan of this snapshot: {error}") from None
    return plan


class _Reader:
    """Reads values by the types of the fields that hold them."""

    def __init__(self, assessment: Assessment, snapshot: Snapshot) -> None:
        self._pods = {pod.uid: pod for pod in snapshot.pods}
        self._groups = {group.spread.name: group for group in assessment.groups}
        self._limits = {limit.name: limit for limit in assessment.limits}
        self._terms = {term.name: term for term in (*assessment.anti_affinity, *assessment.preferred)}

    def read(self, raw: Any, hint: Any) -> Any:
        """Return the value of a field."""
        if hint == Fate:
            return self._read_object(raw, _FATES[raw["kind"]])
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in {types.UnionType, typing.Union}:
            return None if raw is None and types.NoneType in inner else self.read(raw, inner[0])
        if origin is tuple and inner[-1] is Ellipsis:
            return tuple([self.read(one, inner[0]) for one in raw])
        return self._read_object(raw, hint) if isinstance(hint, type) else msgspec.convert(raw, hint)

    def _read_object(self, raw: Any, kind: type) -> Any:
        if kind is Pod:
            return self._pods[raw]
        if kind is Component:
            groups = tuple(self._groups[name] for name in raw["groups"])
            limits = tuple(self._limits[name] for name in raw["limits"])
            terms, preferred = (tuple(self._terms[name] for name in raw[of]) for of in ("terms", "preferred"))
            if not (groups or limits or terms or preferred):
                raise LookupError("a component without groups, limits and terms")
            return Component.of(groups, limits, terms, preferred)
        if kind is Outlook:
            return Outlook(_Read(self.read(raw["targets"], tuple[Target, ...]), raw["counts"]))
        if kind is Proof:
            fact: Fact = self.read(raw, Fact)
            return Proof(lambda: fact)
        if kind is Relaxable:
            relaxation: Relaxation = self.read(raw, Relaxation)
            return Relaxable(lambda: relaxation)
        if kind is Fraction:
            return Fraction(raw)
        if not issubclass(kind, Struct):
            return msgspec.convert(raw, kind)
        made = fact_kinds()[raw["kind"]] if issubclass(kind, Fact) else kind
        if not issubclass(made, kind):
            raise TypeError(f"{made.__name__} is no {kind.__name__}")
        hints = typing.get_type_hints(made)
        return made(**{name: self.read(raw[name], hints[name]) for name in made.__struct_fields__})


class _Read:
    """The source of an outlook that was read from a file."""

    def __init__(self, targets: tuple[Target, ...], counts: Counts | None) -> None:
        self._targets, self._counts = targets, counts

    def targets(self) -> tuple[Target, ...]:
        return self._targets

    def counts(self) -> Counts | None:
        return self._counts

    def landings(self, _: frozenset[str]) -> frozenset[str]:
        return frozenset()
