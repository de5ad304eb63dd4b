"""A question about one snapshot as bytes for another process, small enough to cost the asking process little.

Pods are sent by runs: one whole, and for the others each field in which they differ, as one value for all of them. So
150,000 pods are about a thousand objects for the pickler. Between these, the threads of the asking process go on: 10 MB
in 0.8 s, 105 MiB for the reader. Pickled pod by pod they would be 30 MB, 1.4 s in which no other thread runs, and 230
MiB. Both ends are one program, and nobody else reads or writes these bytes.
"""

import copyreg
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import IO, Any, Final

from msgspec import Struct, structs

from rebalancer.model.pods import Pod
from rebalancer.model.runs import Run
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.demands import Demands
from rebalancer.resilience.worst import Worst
from rebalancer.scheduling.profile import Profile

_FIELDS: Final = Pod.__struct_fields__
_SEPARATOR: Final = "\0"


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question: what a cluster with this scheduler profile keeps after losses, and what it must keep."""

    snapshot: Snapshot
    profile: Profile
    demands: Demands


class Answer(Struct, frozen=True, kw_only=True):
    """The worst losses; or None, and why there are none."""

    worst: Worst | None = None
    problem: str = ""


def send_question(question: Question, file: IO[bytes]) -> None:
    """Write a question. Other threads get a turn after each run of pods."""
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    # Every class of the model can be pickled; this class of the standard library cannot.
    pickler.dispatch_table = {**copyreg.dispatch_table, MappingProxyType: lambda view: (_freeze, (dict(view),))}
    snapshot, runs = question.snapshot, question.snapshot.runs
    pickler.dump((replace(question, snapshot=replace(snapshot, pods=())), len(runs)))
    for run in runs:
        pickler.dump((run.pods[0], len(run.pods) - 1, dict(_find_columns(run))))


def _freeze(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def receive_question(file: IO[bytes]) -> Question:
    """Read a question that `send_question` has written."""
    unpickler = pickle.Unpickler(file)  # noqa: S301  # from the same program
    question, runs = unpickler.load()
    texts: dict[str, str] = {}
    pods: list[Pod] = []
    for _ in range(runs):
        first, others, columns = unpickler.load()
        values = [_split(column, texts) for column in columns.values()]
        pods.append(first)
        changes = [dict(zip(columns, each, strict=True)) for each in zip(*values, strict=True)] or [{}] * others
        pods += [structs.replace(first, **change) for change in changes]
    received: Question = replace(question, snapshot=replace(question.snapshot, pods=tuple(pods)))
    return received


def _find_columns(run: Run) -> Iterator[tuple[str, str | Sequence[Any]]]:
    """Yield the fields in which the pods of a run differ from the first pod, with the values of all later pods."""
    first, *others = run.pods
    for name in _FIELDS:
        value = getattr(first, name)
        values = [getattr(pod, name) for pod in others]
        if any(one is not value and one != value for one in values):
            yield name, _join(values)


def _join(values: Sequence[Any]) -> str | Sequence[Any]:
    """Return texts as one text, because each object costs time in the pickler and memory in the reader."""
    if all(type(value) is str and _SEPARATOR not in value for value in values):
        return _SEPARATOR.join(values)
    return values


def _split(column: str | Sequence[Any], texts: dict[str, str]) -> Sequence[Any]:
    """Return the single values; equal texts, such as node names, become one object."""
    if not isinstance(column, str):
        return column
    return [texts.setdefault(text, text) for text in column.split(_SEPARATOR)]
