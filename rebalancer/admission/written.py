"""The approval of a whole plan as people and tools write it: the file `approval.yaml`, read strictly.

A file that cannot be read approves nothing and is reported. An approval's identity is what it approves, without author
and time, so a tool that applies the same file again approves nothing new.
"""

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import yaml
from msgspec import Meta, Struct

from rebalancer.admission.pause import StrictLoader, to_one_line
from rebalancer.model.moves import make_token

APPROVAL_KEY: Final = "approval.yaml"
"""The key of the ConfigMap `rebalancer-approval` that holds the approval of a whole plan."""

MOST_EVICTIONS: Final = 1_000
"""The most evictions that one approval may allow, because the memory has a token of each."""

_MOST_NAMES: Final = 100
_LARGEST: Final = 65_536
"""Longer files are not read: YAML is slow, and this must not take a second."""

_Name = Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
_Workload = Annotated[str, Meta(pattern="^[^/ ]+/[^/ ]+/[^/ ]+$", max_length=600)]
_Number = Annotated[str, Meta(pattern="^[1-9][0-9]*$", max_length=9)]


class WholeApproval(Struct, frozen=True, kw_only=True):
    """What the file approves: the repairs of a plan, up to a number of evictions and until a time."""

    plan: str
    evictions: int
    until: datetime
    workloads: tuple[str, ...] = ()
    """If there are any, only pods of these workloads are approved."""
    namespaces: tuple[str, ...] = ()
    """If there are any, only pods of these namespaces are approved."""
    by: str = ""

    @property
    def id(self) -> str:
        """The approval's identity: all that it approves, regardless of the author."""
        until = self.until.astimezone(UTC).isoformat()
        facts = (self.plan, self.evictions, until, sorted(self.workloads), sorted(self.namespaces))
        return make_token(msgspec.json.encode(facts).decode())

    @property
    def is_restricted(self) -> bool:
        """Whether the file approves only a part of the plan."""
        return bool(self.workloads or self.namespaces)

    def includes(self, workload: str) -> bool:
        """Return whether the file approves evictions of this workload, NAMESPACE/KIND/NAME in small letters."""
        return not self.is_restricted or workload in self.workloads or workload.partition("/")[0] in self.namespaces


class Written(Struct, frozen=True, kw_only=True):
    """The content of the approval file; `problem` says why it cannot be read, "" if it can.

    `is_read` is false before the first read; until then nothing is known to be approved or withdrawn.
    """

    is_read: bool = True
    approval: WholeApproval | None = None
    problem: str = ""

    @property
    def id(self) -> str:
        """The identity of the approval, "" if there is none."""
        return self.approval.id if self.approval is not None else ""


NOTHING_WRITTEN: Final = Written()
NOT_READ: Final = Written(is_read=False)


class _Loader(StrictLoader):
    """YAML whose values are texts, because a hash of digits is no number and each field is read by its own rule."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [resolver for resolver in resolvers if resolver[0] == "tag:yaml.org,2002:null"]
        for first, resolvers in StrictLoader.yaml_implicit_resolvers.items()
    }


class _File(Struct, forbid_unknown_fields=True):
    plan: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    evictions: _Number
    until: str
    workloads: Annotated[tuple[_Workload, ...], Meta(max_length=_MOST_NAMES)] | None = None
    namespaces: Annotated[tuple[_Name, ...], Meta(max_length=_MOST_NAMES)] | None = None
    by: str | None = None


def read_written(text: str) -> Written:
    """Read the text of `approval.yaml`; an empty file approves nothing."""
    if not text.strip():
        return NOTHING_WRITTEN
    if len(text) > _LARGEST:
        return unreadable(f"it has {len(text):,} characters; expected at most {_LARGEST:,}")
    try:
        file = msgspec.convert(yaml.load(text, _Loader), _File)  # noqa: S506  # it is a safe one
        until = msgspec.convert(file.until, Annotated[datetime, Meta(tz=True)]).astimezone(UTC)
    except Exception as error:  # noqa: BLE001  # YAML fails in many ways, and after each of them nothing is approved
        return unreadable(to_one_line(str(error)) or type(error).__name__)
    if int(file.evictions) > MOST_EVICTIONS:
        return unreadable(f"evictions: {file.evictions}; expected at most {MOST_EVICTIONS}")
    for field, names in (("workloads", file.workloads), ("namespaces", file.namespaces)):
        if names == ():
            return unreadable(f"{field} is empty; name at least one, or leave {field} out to approve the whole plan")
    return Written(
        approval=WholeApproval(
            plan=file.plan,
            evictions=int(file.evictions),
            until=until,
            workloads=tuple(name.lower() for name in file.workloads or ()),
            namespaces=file.namespaces or (),
            by=to_one_line(file.by or ""),
        )
    )


def unreadable(why: str) -> Written:
    """Return the result for a file that cannot be read."""
    return Written(problem=f"{APPROVAL_KEY} cannot be read, so it approves nothing. Fix or remove it: {why}")


def format_approval(approval: WholeApproval) -> str:
    """Return an approval as text for `read_written`, to the second."""
    until = approval.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    fields: dict[str, object] = {"plan": approval.plan, "evictions": approval.evictions, "until": until}
    if approval.workloads:
        fields["workloads"] = list(approval.workloads)
    if approval.namespaces:
        fields["namespaces"] = list(approval.namespaces)
    if approval.by:
        fields["by"] = approval.by
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
