"""What must be left of a workload when a failure domain is lost."""

from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.policy.amounts import LARGEST
from rebalancer.policy.base import Section, read_value, unexpected
from rebalancer.policy.selectors import KEY_PATTERN, LabelKey

MOST_KEYS: Final = 4
"""The most topology keys whose domains are lost in turn; each key costs as much as any other."""

_ALL: Final = "all"
_MAJORITY: Final = "majority"
_EXPECTED: Final = "all, majority or a whole number of pods such as 2"


@dataclass(frozen=True, slots=True)
class Required:
    """How many pods must be left: all wanted pods, more than half of them, or a number."""

    written: int | str

    @classmethod
    def of(cls, written: int | str) -> Self:
        """Read `all`, `majority` or `2`; ValueError says what was expected."""
        if isinstance(written, str):
            if written not in (_ALL, _MAJORITY):
                raise ValueError(f"expected {_EXPECTED}")
        elif not 1 <= written <= LARGEST:
            raise ValueError(f"expected a number from 1 to {LARGEST}")
        return cls(written)

    def resolve(self, wanted: int) -> int:
        """Return the number of pods that it means for a workload of `wanted` pods, at most `wanted`."""
        match self.written:
            case int(number):
                return min(number, wanted)
            case "majority":
                return wanted // 2 + 1 if wanted else 0
            case _:
                return wanted

    def __str__(self) -> str:
        """Show it as the file has it."""
        return str(self.written)


def _validate(value: object) -> Required:
    return read_value(value, Required, Required.of, accepts=(int, str), expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    text = str(value).strip().lower() if isinstance(value, str) else ""
    return text if text in (_ALL, _MAJORITY) or (text.isascii() and text.isdigit() and len(text) < 10) else None


RequiredField = Annotated[
    Required,
    PlainValidator(_validate),
    PlainSerializer(lambda required: required.written, return_type=int | str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": LARGEST},
                {"type": "string", "enum": [_ALL, _MAJORITY]},
            ],
            "examples": [_ALL, 2],
        }
    ),
]
"""A field for how many pods must be left."""


def _validate_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(keys)) < len(keys) or len(keys) > MOST_KEYS:
        raise unexpected(f"at most {MOST_KEYS} keys, without duplicates")
    return keys


def _validate_phases(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    if not phases or len(set(phases)) < len(phases):
        raise unexpected(f"[{', '.join(Phase)}], or one of these")
    return phases


Keys = Annotated[
    tuple[LabelKey, ...],
    AfterValidator(_validate_keys),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": KEY_PATTERN},
            "maxItems": MOST_KEYS,
            "uniqueItems": True,
        }
    ),
]
"""A field for topology keys whose domains are lost."""

Phases = Annotated[
    tuple[Phase, ...],
    AfterValidator(_validate_phases),
    Field(json_schema_extra={"minItems": 1, "uniqueItems": True}),
]
"""A field for phases of a loss."""


class Resilience(Section):
    """What must be left of each workload after the loss of any domain. It is computed and reported, never repaired."""

    keys: Keys = (ZONE,)
    """Topology keys whose domains are lost, one at a time; []: nothing is computed."""
    phases: Phases = tuple(Phase)
    """The phases of a loss: silent, while the Node objects exist, and gone, once they are deleted."""
    require: RequiredField = Required(_ALL)
    """How many pods must certainly be left: all, majority (more than half), or a number."""


class GroupResilience(Section):
    """What must be left of the group's workloads; null: as for all workloads.

    Of several groups, the strictest decides.
    """

    keys: Keys | None = None
    """Topology keys whose domains are lost, one at a time."""
    phases: Phases | None = None
    """The phases of a loss."""
    require: RequiredField | None = None
    """How many pods of each workload must certainly be left."""
