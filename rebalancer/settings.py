"""The process's own settings: the place of its policy, its listen addresses, its lease, its logs.

Settings are declared once, here. The flags of `rebalancer run` and the environment variables `REBALANCER_*` both come
from these declarations; a flag wins over the environment. Decisions about the cluster's workloads belong to the policy,
not to the settings.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from rebalancer.locations import (
    NAME,
    PREFIX,
    Address,
    ConfigMapPolicy,
    FilePolicy,
    own_namespace,
    parse_address,
    parse_policy_location,
)
from rebalancer.model.modes import Mode
from rebalancer.model.visible import visible_lines
from rebalancer.model.words import format_duration
from rebalancer.policy.base import unexpected
from rebalancer.policy.durations import PositiveDuration, at_most
from rebalancer.policy.wording import describe_value
from rebalancer.ports import LONGEST_LEASE

_JITTER = 1.2
"""A renewal may take up to the retry period times this factor, as in client-go's leader election."""

_LONGEST_NAME = 100

# A Service named `rebalancer…` makes the kubelet inject such variables into the pods of its namespace.
_SERVICE_LINK = re.compile(r"REBALANCER_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT(?:_[0-9]+_\w+)?)\Z")


class SettingsError(Exception):
    """The settings are not valid. `problems` are sentences that name the flag or the environment variable."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(problems)

    def __str__(self) -> str:
        return visible_lines(self.problems)


@dataclass(frozen=True, slots=True)
class HelpText:
    """How help texts show a setting: the form of its value, and its default if that depends on the environment."""

    form: str
    default: str | None = None


def _parse_namespace(value: object) -> str:
    if isinstance(value, str) and len(value) <= 63 and "." not in value and NAME.match(value):
        return value
    raise unexpected("the name of a namespace")


def _parse_namespaces(value: object) -> tuple[str, ...]:
    names = tuple(value.split(",")) if isinstance(value, str) else value
    try:
        if isinstance(names, tuple) and names:
            return tuple(sorted({_parse_namespace(name) for name in names}))
    except ValueError:
        pass
    raise unexpected("names of namespaces with commas between them")


def _parse_cluster_name(value: object) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    raise unexpected(f"a name of at most {_LONGEST_NAME} characters in one line")


def _default_log_format() -> Literal["json", "console"]:
    return "console" if sys.stderr.isatty() else "json"


PolicyLocation = Annotated[
    FilePolicy | ConfigMapPolicy,
    NoDecode,
    PlainValidator(parse_policy_location),
    PlainSerializer(str, return_type=str),
]
ListenAddress = Annotated[Address, NoDecode, PlainValidator(parse_address), PlainSerializer(str, return_type=str)]
_DURATION = HelpText("DURATION")


class Settings(BaseSettings):
    """The settings of the process, without its policy."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        validate_default=False,
        use_attribute_docstrings=True,
    )

    policy: Annotated[PolicyLocation | None, HelpText("FILE|configmap:NAMESPACE/NAME", "the shipped policy")] = None
    """Where the policy is: a file, read again when it changes, or a ConfigMap, watched."""
    mode: Annotated[Mode | None, HelpText("MODE", "the policy's")] = None
    """The furthest mode allowed, Observe, Approve or Evict; it can only restrict the policy."""
    once: bool = False
    """Repeat cycles until nothing is in flight or can be done now, then exit; the policy's `for` is ignored."""
    kubeconfig: Annotated[Path | None, HelpText("FILE", "$KUBECONFIG, the pod's own account, ~/.kube/config")] = None
    """The kubeconfig file that names the cluster."""
    context: Annotated[str | None, HelpText("NAME", "the current one")] = None
    """The kubeconfig's context."""
    namespace: Annotated[
        str, PlainValidator(_parse_namespace), HelpText("NAME", "the pod's own, else rebalancer-system")
    ] = Field(default_factory=own_namespace)
    """The namespace of the controller and of its objects."""
    cluster_name: Annotated[str, PlainValidator(_parse_cluster_name), HelpText("NAME", "none")] = ""
    """The cluster's name, for people: it stands in the title and head of the status page and in the status."""
    workload_namespaces: Annotated[
        tuple[str, ...],
        NoDecode,
        PlainValidator(_parse_namespaces),
        PlainSerializer(",".join, return_type=str),
        HelpText("NAME,NAME", "all"),
    ] = ()
    """The only namespaces whose workloads, budgets and services are read, and are balanced; pods are read in all."""
    metrics_address: Annotated[ListenAddress, HelpText("HOST:PORT")] = Address("", 8080)
    """Where /metrics, /healthz and /readyz are served; without a host, on all addresses; with --once only if given."""
    page_address: Annotated[ListenAddress, HelpText("HOST:PORT")] = Address("127.0.0.1", 8081)
    """Where the status page is served, for `kubectl port-forward`; not with --once."""
    lease_duration: Annotated[PositiveDuration, at_most(LONGEST_LEASE), _DURATION] = timedelta(seconds=15)
    """How long other processes wait for a silent leader before they take over; at most 10m."""
    renew_deadline: Annotated[PositiveDuration, _DURATION] = timedelta(seconds=10)
    """How long a leader tries to renew its lease before it stops acting; shorter than the lease."""
    retry_period: Annotated[PositiveDuration, _DURATION] = timedelta(seconds=2)
    """The time between two attempts to take or renew the lease."""
    request_timeout: Annotated[PositiveDuration, _DURATION] = timedelta(seconds=30)
    """How long a single request to the API server may take; watches are not bounded by it."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], HelpText("LEVEL")] = "info"
    """The least severe messages that are logged: debug, info, warning or error."""
    log_format: Annotated[Literal["json", "console"], HelpText("FORMAT", "console on a terminal, else json")] = Field(
        default_factory=_default_log_format
    )
    """How messages are logged: json or console."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read flags, then the environment, but no files."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings

    @model_validator(mode="after")
    def _lease_holds(self) -> Self:
        """Compare the three times as client-go does; otherwise two leaders could act at once."""
        if self.renew_deadline >= self.lease_duration:
            raise unexpected(
                _lease_requirement("--renew-deadline", self.renew_deadline, "--lease-duration", self.lease_duration)
            )
        if self.retry_period * _JITTER >= self.renew_deadline:
            slowest = f"{_JITTER} times --retry-period"
            raise unexpected(
                _lease_requirement(slowest, self.retry_period * _JITTER, "--renew-deadline", self.renew_deadline)
            )
        return self

    @property
    def listen_address(self) -> Address | None:
        """Where to listen; None with `once`, unless a flag or the environment names an address."""
        return None if self.once and "metrics_address" not in self.model_fields_set else self.metrics_address

    @property
    def page_listen_address(self) -> Address | None:
        """Where to serve the status page; None with `once`."""
        return None if self.once else self.page_address

    @property
    def lease_request_timeout(self) -> timedelta:
        """How long a request for the Lease may take; after a hung request two more fit before the deadline."""
        return self.renew_deadline / 3

    def describe(self) -> dict[str, Any]:
        """Return all settings for the first line of the log, in JSON's types. None is secret."""
        return self.model_dump(mode="json")


def _lease_requirement(shorter: str, value: timedelta, longer: str, limit: timedelta) -> str:
    shown = f"{value.total_seconds():g}s" if value.microseconds else format_duration(value)
    return f"{shorter} ({shown}) below {longer} ({format_duration(limit)})"


def flag_of(name: str) -> str:
    """Return the flag of a field; the namespace's flag has another name, to be distinct from one for workloads."""
    return "--" + ("controller-namespace" if name == "namespace" else name.replace("_", "-"))


def variable_of(name: str) -> str:
    """Return the environment variable that sets a field."""
    return PREFIX + name.upper()


def load_settings(flags: Mapping[str, object]) -> Settings:
    """Combine the given flags with the environment; SettingsError lists all problems."""
    problems = list(_unknown_variables())
    try:
        settings = Settings(**dict(flags))  # type: ignore[arg-type]  # validated there
    except ValidationError as error:
        problems += [_describe_problem(problem, flags) for problem in error.errors(include_url=False)]
    else:
        if not problems:
            return settings
    raise SettingsError(tuple(problems))


def _unknown_variables() -> Iterator[str]:
    """Yield a problem for each variable with Rebalancer's prefix that is no setting and so has no effect."""
    fields = list(Settings.model_fields)
    known = {variable_of(name) for name in fields}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name.upper() not in known and not _SERVICE_LINK.match(name):
            close = get_close_matches(name.removeprefix(PREFIX).lower(), fields, n=1)
            hint = (
                f"did you mean {variable_of(close[0])}?" if close else f"known: {', '.join(map(variable_of, fields))}"
            )
            yield f"{name}: unknown environment variable; {hint}"


def _describe_problem(error: ErrorDetails, flags: Mapping[str, object]) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    expected = str(context.get("expected", error["msg"])).replace("'", "")
    if not error["loc"]:
        return f"expected {expected}"
    name = str(error["loc"][0])
    where = flag_of(name) if name in flags else variable_of(name)
    if error["type"] == "bool_parsing":
        expected = "true or false"
    hint = f"; did you mean {context['suggestion']}?" if context.get("suggestion") else ""
    return f"{where}: found {describe_value(error['input'])}; expected {expected}{hint}"
