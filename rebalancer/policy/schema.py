"""The JSON Schema of policy files, for editors and CI.

It accepts what the loader accepts, except where a schema cannot express the loader's rule: duplicate keys, a number
written as 2.0, durations beyond a year.
"""

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from rebalancer.model.words import format_duration
from rebalancer.policy.amounts import Amount
from rebalancer.policy.base import Section
from rebalancer.policy.breaker import Percentage
from rebalancer.policy.document import Policy
from rebalancer.policy.names import Owner
from rebalancer.policy.teams import TeamPolicy


def json_schema() -> dict[str, Any]:
    """Return the schema of cluster policies, draft 2020-12."""
    return _make_schema(Policy, "policy")


def team_json_schema() -> dict[str, Any]:
    """Return the schema of team policies, draft 2020-12."""
    return _make_schema(TeamPolicy, "team-policy")


def _make_schema(model: type[Section], name: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://rebalancer.dev/schemas/v1alpha1/{name}.json",
        **model.model_json_schema(by_alias=True, schema_generator=_Generator),
    }


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, with defaults as in a file and without titles that repeat the name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave titles out."""
        del schema
        return False

    def encode_default(self, dft: Any) -> Any:
        """Write a default as the file does."""
        match dft:
            case timedelta():
                return format_duration(dft)
            case Amount():
                return dft.written
            case Owner() | Percentage():
                return str(dft)
            case tuple():
                return [self.encode_default(value) for value in dft]
            case _:
                return super().encode_default(dft)
