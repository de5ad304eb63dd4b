"""Label selectors in policies: written and checked as Kubernetes does, matched by the model.

Kubernetes' rules: `ValidateLabelSelector` of apimachinery. A key is an optional DNS prefix and a name of at most 63
characters, a value is empty or such a name; In and NotIn need values, Exists and DoesNotExist have none.
"""

import re
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.policy.base import Section, unexpected

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
KEY_PATTERN = rf"^(?:(?=[^/]{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/)?{_NAME}$"
VALUE_PATTERN = rf"^(?:{_NAME})?$"
_LABEL_KEY = re.compile(KEY_PATTERN.removesuffix("$") + r"\Z")
_LABEL_VALUE = re.compile(VALUE_PATTERN.removesuffix("$") + r"\Z")


def parse_label_key(value: object) -> str:
    """Return a value that is a label key; ValueError says what was expected."""
    if isinstance(value, str) and _LABEL_KEY.match(value):
        return value
    raise unexpected("a label key such as app or app.kubernetes.io/name (its name at most 63 characters)")


def _validate_value(value: object) -> str:
    if isinstance(value, str):
        if _LABEL_VALUE.match(value):
            return value
        raise unexpected("a label value: at most 63 letters, digits, -, _ and ., a letter or digit at both ends")
    quoted = f'"{str(value).lower()}"' if isinstance(value, int) else None
    raise unexpected("a label value, which is text", suggestion=quoted)


LabelKey = Annotated[str, PlainValidator(parse_label_key), WithJsonSchema({"type": "string", "pattern": KEY_PATTERN})]
"""A field for the key of a label."""

LabelValue = Annotated[
    str, PlainValidator(_validate_value), WithJsonSchema({"type": "string", "pattern": VALUE_PATTERN})
]
"""A field for the value of a label."""

MatchLabels = Annotated[
    dict[LabelKey, LabelValue],
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": KEY_PATTERN},
            "additionalProperties": {"type": "string", "pattern": VALUE_PATTERN},
        }
    ),
]
"""A field for labels and their values."""


class Expression(Section):
    """One condition of `matchExpressions`."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}},
            "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
            "else": {"properties": {"values": {"maxItems": 0}}},
        }
    )

    key: LabelKey
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """NotIn and DoesNotExist also match where the label is absent."""
    values: tuple[LabelValue, ...] = ()
    """For In and NotIn, at least one; for the others, none."""

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        wants_values = self.operator in {"In", "NotIn"}
        if wants_values and not self.values:
            raise unexpected(f"at least one of `values` for operator {self.operator}")
        if not wants_values and self.values:
            raise unexpected(f"no `values` for operator {self.operator}")
        return self


class Selector(Section):
    """A Kubernetes label selector; `{}` matches everything."""

    match_labels: MatchLabels = Field(default_factory=dict)
    """Labels and the value each must have."""
    match_expressions: tuple[Expression, ...] = ()
    """Conditions that must hold as well."""

    @property
    def compiled(self) -> LabelSelector:
        """The selector that matches; the same object for equal selectors."""
        return _compile(tuple(self.match_labels.items()), self.match_expressions)


@lru_cache(maxsize=1024)
def _compile(labels: tuple[tuple[str, str], ...], expressions: tuple[Expression, ...]) -> LabelSelector:
    """Compile a selector once. The cache is outside the model, since its own would survive `model_copy(update=…)`."""
    requirements = (
        SelectorRequirement(expression.key, Operator(expression.operator), expression.values)
        for expression in expressions
    )
    return LabelSelector.of(dict(labels), requirements)
