"""Scenarios: YAML files with changes, and optionally with a cluster, a policy, and a story to watch.

`steps` is required. Each step has one change, as a verb and the text of its flag. It may also have `wait`, or `after`,
`inRepair` and `says`, the fields of `Change`:

    steps:
      - removeDomain: topology.kubernetes.io/zone=c
      - {cordon: a-1, wait: 10m}
      - {restoreDomain: topology.kubernetes.io/zone=c, after: 30m, says: Zone c is back}

The scenarios in the folder `scenarios` are shipped, and named `builtin:zone` and so on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.resources import files
from math import inf
from typing import Any, Final

from rebalancer.assessment.name_hints import nearest_name
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, PolicyError, load_policy, parse_duration
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.simulator.changes import VERBS, Change, parse_change
from rebalancer.simulator.play import LASTING, Play
from rebalancer.simulator.sketch import build_cluster
from rebalancer.yaml_tree import Tree, UnreadableError, UnsupportedScalar, read_tree

BUILTIN: Final = "builtin:"
"""The prefix of the names of shipped scenarios."""

SHIPPED: Final = ("zone", "deadlock")

_ALLOWED: Final = 1024 * 1024
"""The most bytes of a scenario file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """The changes of a cluster; `snapshot` and `policy` are None if the scenario does not have its own."""

    steps: tuple[Change, ...]
    begins: str = "The cluster as it is"
    """The first line of the story."""
    repaired: str = "Nothing is left to repair"
    """The last line of the story."""
    pace: float = 10.0
    """How many simulated seconds pass in one second while a person watches."""
    lasting: timedelta = LASTING
    """For how long nothing must happen before the play is over."""
    policy: Policy | None = None
    snapshot: Snapshot | None = None

    def play(
        self,
        *,
        seed: int,
        snapshot: Snapshot | None = None,
        policy: Policy | None = None,
        profile: Profile = DEFAULT_PROFILE,
    ) -> Play:
        """Return a play that has not begun; the given cluster and policy replace the scenario's own."""
        first, rules = snapshot or self.snapshot, policy or self.policy
        assert first is not None
        assert rules is not None
        return Play(first, rules, self.steps, seed=seed, profile=profile, lasting=self.lasting)


class ScenarioError(Exception):
    """A scenario cannot be read; the text names the line."""


def shipped_scenario(name: str) -> Scenario:
    """Read a shipped scenario by its name."""
    if name not in SHIPPED:
        raise ScenarioError(f"found {BUILTIN}{name}, expected {list_shipped()}")
    data = files(__package__).joinpath("scenarios", f"{name}.yaml").read_bytes()
    return load_scenario(data, f"{BUILTIN}{name}")


def list_shipped() -> str:
    """Return the names of the shipped scenarios, in the form that --scenario takes."""
    return " or ".join(f"{BUILTIN}{name}" for name in SHIPPED)


def load_scenario(data: bytes, source: str) -> Scenario:
    """Read a scenario; ScenarioError names `source` and the line of the first problem."""
    try:
        tree = read_tree(_decode(data))
    except UnreadableError as error:
        raise ScenarioError(f"{source}:{error.line}: {error.message}") from None
    if tree.problems:
        line, _, message = tree.problems[0]
        raise ScenarioError(f"{source}:{line}: {message}")
    return replace(Scenario(steps=tuple(_read_steps(tree, source))), **_read_story(tree, source))


def _decode(data: bytes) -> str:
    if len(data) > _ALLOWED:
        raise UnreadableError(line=1, message=f"the file has {len(data):,} bytes; expected at most {_ALLOWED:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError(line=1, message="expected text in UTF-8") from None


def _read_story(tree: Tree, source: str) -> dict[str, Any]:
    """Return the fields of `Scenario` that the file has beside its steps."""
    fields = {}
    for name, value in tree.value.items():
        line = tree.places[(name,)].line
        if name == "steps":
            continue
        if name not in _STORY:
            near = nearest_name(name, ["steps", *_STORY])
            hint = f"; did you mean {near}?" if near else ""
            raise ScenarioError(
                f"{source}:{line}: found {name}, expected steps only, or also {', '.join(_STORY)}{hint}"
            )
        field, parse = _STORY[name]
        try:
            fields[field] = parse(value)
        except (ValueError, PolicyError) as error:
            raise ScenarioError(f"{source}:{line}: {name}: {error}") from None
    return fields


def _read_steps(tree: Tree, source: str) -> Iterator[Change]:
    for name in tree.value:
        if name != "steps" and name not in _STORY:
            return  # named by `_read_story`, before what is missing because of it
    steps = tree.value.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{source}:1: expected steps, a list of changes")
    for number, step in enumerate(steps):
        try:
            yield _read_step(step)
        except ValueError as error:
            raise ScenarioError(f"{source}:{tree.places[('steps', number)].line}: {error}") from None


def _read_step(step: object) -> Change:
    verbs = {_camel_case(verb): verb for verb in VERBS}
    expected = f"one of {', '.join(verbs)}"
    if not isinstance(step, Mapping):
        raise ValueError(f"found {step!r}, expected a mapping with {expected}")  # noqa: TRY004  # as all other problems
    unknown = [name for name in step if name not in verbs and name not in _STEP]
    if unknown:
        near = nearest_name(unknown[0], [*verbs, *_STEP])
        raise ValueError(f"found {unknown[0]}, expected {expected}{f'; did you mean {near}?' if near else ''}")
    written = [name for name in step if name in verbs]
    if len(written) != 1:
        raise ValueError(f"found {len(written)} changes in one step, expected {expected}")
    fields: dict[str, Any] = {}
    change = None
    for name, value in step.items():
        try:
            if name in verbs:
                change = parse_change(verbs[name], _read_text(value))
            else:
                field, parse = _STEP[name]
                fields[field] = parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    assert change is not None
    return replace(change, **fields)


def _camel_case(verb: str) -> str:
    first, *others = verb.split("-")
    return first + "".join(word.capitalize() for word in others)


# The values


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"found {value!r}, expected text")
    return value


def _read_duration(value: object) -> timedelta:
    if not isinstance(value, str):
        raise ValueError(f"found {value!r}, expected a duration such as 10m")  # noqa: TRY004
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"found {value!r}, {error}") from None


def _read_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"found {value!r}, expected true or false")  # noqa: TRY004
    return value


def _read_pace(value: object) -> float:
    text = value.text if isinstance(value, UnsupportedScalar) else value
    try:
        pace = float(text) if isinstance(text, str | int) else 0.0
    except ValueError:
        pace = 0.0
    if not 0 < pace < inf:
        raise ValueError(f"found {text!r}, expected simulated seconds in a second, above 0, such as 10 or 0.5")
    return pace


def _read_policy(value: object) -> Policy:
    if not isinstance(value, str):
        raise ValueError("expected the text of a policy, below `policy: |`")  # noqa: TRY004
    return load_policy(value.encode(), source="policy")


_STORY: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "cluster": ("snapshot", build_cluster),
    "policy": ("policy", _read_policy),
    "begins": ("begins", _read_text),
    "repaired": ("repaired", _read_text),
    "pace": ("pace", _read_pace),
    "quiet": ("lasting", _read_duration),
}
_STEP: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "wait": ("wait", _read_duration),
    "after": ("after", _read_duration),
    "inRepair": ("in_repair", _read_switch),
    "says": ("says", _read_text),
}
