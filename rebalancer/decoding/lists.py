"""Pages of a list from the API server, whole files of mixed kinds, single objects.

The head of a page has the token of the next page, so the next page is requested before this one is decoded. A page is
decoded in parts. From a malformed object on, objects are decoded one by one, so that it does not affect others.

A file's documents may be lists, lists of lists, single objects, and the events of a watch: the last event of each
object counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

import msgspec

from rebalancer.decoding import bounds, wire
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.errors import MalformedObject
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED, KINDS, OPTIONAL_KINDS, ResourceKind, make_owner_kind
from rebalancer.decoding.reduction import KNOWN_KINDS, reduce_object
from rebalancer.decoding.wholeness import (
    Change,
    Doubts,
    Place,
    ReadPage,
    Seen,
    doubt_objects,
    doubt_pages,
    is_successor,
    look_at,
)
from rebalancer.model.cluster import NEWEST, ConfigMap, Version
from rebalancer.model.snapshot import OPTIONAL, Fault, Snapshot
from rebalancer.model.workloads import name_owner, qualify_kinds
from rebalancer.policy.team_maps import POLICY_MAP

_ListPage = wire.ListOf[msgspec.Raw]
_KIND_NAMES = frozenset(kind.name for kind in (*KINDS, *OPTIONAL_KINDS))
_PAGE = msgspec.json.Decoder(_ListPage)
_HEAD = msgspec.json.Decoder(wire.Head)
_IDENTITY = msgspec.json.Decoder(wire.Identity)
_HEAD_BYTES: Final = 4_096
"""Bytes of a page in which to search its head; kind, version and metadata have some hundreds of bytes."""
_ITEMS: Final = b'"items":['
_BETWEEN: Final = b'},{"metadata":{'
_PART_BYTES: Final = 128 * 1024
"""Bytes of objects that are decoded together, and then converted while the processor's cache has them."""


class UnreadableList(ValueError):  # noqa: N818  # it names what the document is, as callers read it
    """The document is not a list of Kubernetes objects; the message says what it is."""


@dataclass(frozen=True, kw_only=True)
class OpenedPage:
    """One page as it came, with only its head decoded, and the token of the next page."""

    data: bytes
    resource_version: str
    continue_token: str
    begin: int | None
    """Where the first object begins, None if the head does not show it."""

    @cached_property
    def items(self) -> Sequence[msgspec.Raw]:
        """The objects, not decoded; raises UnreadableList if the body is not a list."""
        return _decode_page(self.data).items


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page: the decoded objects, the faults, and the token of the next page."""

    objects: Sequence[Any]
    faults: Sequence[Fault]
    resource_version: str
    continue_token: str


def decode(kind: ResourceKind, data: bytes | msgspec.Raw, intern: Interner) -> Any:
    """Decode one object of a kind, or return the Fault with the reason why it is malformed."""
    try:
        return kind.convert(kind.sources.decode(data), intern)
    except (msgspec.ValidationError, MalformedObject) as error:
        return _make_fault(kind.name, data, _explain(kind, data) or str(error))


def _explain(kind: ResourceKind, data: bytes | msgspec.Raw) -> str:
    """Return the type error of an object, with the path from its root; "" if there is none."""
    try:
        kind.decoder.decode(data)
    except (msgspec.ValidationError, MalformedObject) as error:
        return str(error)
    return ""


def _make_fault(kind: str, data: bytes | msgspec.Raw, message: str) -> Fault:
    message = bounds.shorten(message, bounds.LONGEST_TEXT)
    try:
        names = _IDENTITY.decode(data).metadata
        return Fault(kind=kind, namespace=str(names.namespace), name=str(names.name), message=message)
    except msgspec.ValidationError:
        return Fault(kind=kind, namespace="", name="", message=message)


def open_page(data: bytes) -> OpenedPage:
    """Return an undecoded page with its decoded head; raise UnreadableList if the body is not a list."""
    head, items, _ = data[:_HEAD_BYTES].partition(_ITEMS)
    known = _read_head(head + items)
    page = known or _decode_page(data)
    return OpenedPage(
        data=data,
        resource_version=page.metadata.resource_version,
        continue_token=page.metadata.continue_,
        begin=len(head + items) if known else None,
    )


def _read_head(head: bytes) -> _ListPage | None:
    """Return a page without its objects; None if its metadata does not precede them.

    The API server writes it there, except for kinds of CustomResourceDefinitions. The searched pattern cannot occur in
    a string, because a quote in a string has a backslash before it.
    """
    try:
        page = _PAGE.decode(head + b"]}")
    except msgspec.DecodeError:
        return None
    return page if page.metadata.resource_version else None


def decode_items(kind: ResourceKind, page: OpenedPage, intern: Interner) -> Page:
    """Decode the objects of a page; a malformed one does not affect the others."""
    objects, faults = [], []
    convert = kind.convert
    for position, source in enumerate(_read_sources(kind, page)):
        try:
            if source is not None:
                objects.append(convert(source, intern))
                continue
        except (msgspec.ValidationError, MalformedObject):
            pass
        faults.append(decode(kind, page.items[position], intern))
    return Page(
        objects=objects,
        faults=faults,
        resource_version=page.resource_version,
        continue_token=page.continue_token,
    )


def _read_sources(kind: ResourceKind, page: OpenedPage) -> Iterator[Any]:
    """Yield what `convert` takes of every object of a page; None for one whose types are malformed.

    Dividing a page into objects first would scan it twice: 18 us for a pod of 9 KB instead of 11 us. A page decoded as
    a whole leaves the processor's cache before its conversion: 300 pages of 500 pods take 1.4 times as long as in
    parts.
    """
    position = 0
    if kind.parts is not None:
        try:
            for part in _divide(page):
                sources = kind.parts.decode(part)
                yield from sources
                position += len(sources)
            if position:
                return
        except msgspec.DecodeError:
            pass
    for item in page.items[position:]:
        try:
            yield kind.sources.decode(item)
        except (msgspec.ValidationError, MalformedObject):
            yield None


def _divide(page: OpenedPage) -> Iterator[bytes]:
    """Yield the objects of a page in parts, each a JSON array; none if the head does not show where they begin.

    A part ends before text that looks like the start of an object. That text cannot occur in a string, because a quote
    there has a backslash before it. It may occur in an array within an object, but then the part is no valid JSON. So a
    valid part has whole objects.
    """
    data, begin = page.data, page.begin
    end = data.rfind(b"]}")
    if begin is None or data[end + 2 :].strip():
        return
    view = memoryview(data)
    while begin < end:
        cut = data.find(_BETWEEN, begin + _PART_BYTES, end)
        stop = end if cut < 0 else cut + 1
        yield b"".join((b"[", view[begin:stop], b"]"))
        begin = stop + 1


def _decode_page(data: bytes | msgspec.Raw) -> _ListPage:
    try:
        return _PAGE.decode(data)
    except msgspec.DecodeError as error:
        raise UnreadableList(f"not a list of Kubernetes objects: {error}") from None


def reduce_page(kind: ResourceKind, page: OpenedPage) -> tuple[list[bytes], list[Fault]]:
    """Return the reduced objects of a page of a list, and the malformed ones."""
    return _reduce((kind, item) for item in page.items)


class ReducedObjects(NamedTuple):
    """The reduced objects of a file, its kinds, its malformed objects, and the doubts about the file."""

    items: list[bytes]
    kinds: frozenset[str]
    faults: list[Fault]
    doubts: Doubts


def reduce_file(contents: "FileContents") -> ReducedObjects:
    """Reduce the objects of a file; see `decode_file`."""
    read = _read_entries(contents)
    pairs = [(entry.kind, entry.data) for entry in read.entries if entry.kind is not None]
    items, faults = _reduce(pairs)
    known = frozenset(contents.kinds | {kind.name for kind, _ in pairs if kind.group in _OWN_GROUPS})
    return ReducedObjects(items, known, faults, read.doubts)


class _Item(NamedTuple):
    """An object of a file: its kind and API version, its text, its place, and the type of its watch event."""

    kind_name: str
    api_version: str
    data: msgspec.Raw
    place: Place
    event: str


class _Document(wire.Wire, frozen=True):
    """A document: a list has `items`, an event of a watch has an `object`."""

    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] | None = None
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


_DOCUMENT = msgspec.json.Decoder(_Document | list[msgspec.Raw])


@dataclass
class FileContents:
    """The objects of a file's documents in order, and the kinds that its lists contain or name."""

    items: list[_Item] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    pages: list[ReadPage] = field(default_factory=list)
    documents: int = 0

    @classmethod
    def of(cls, *documents: bytes) -> Self:
        """Return the objects of documents; see `add`."""
        contents = cls()
        for document in documents:
            contents.add(document)
        return contents

    def add(self, data: bytes, source: str = "the file") -> None:
        """Add the objects of a JSON document; `source` is how messages name its file.

        Raises UnreadableList if it has no objects, msgspec.DecodeError if an item is no object.
        """
        try:
            document = _DOCUMENT.decode(data)
        except msgspec.DecodeError as error:
            raise UnreadableList(f"not a list of Kubernetes objects: {error}") from None
        place = Place(self.documents, source)
        self.documents += 1
        if isinstance(document, list):
            if not document:
                raise UnreadableList("an empty array has no Kubernetes objects")
            for item in document:
                self._add_item(item, _NO_LIST, place._replace(is_listed=True))
        elif document.items is not None:
            self._add_list(data, place)
        elif document.type:
            self._add_event(document, place)
        elif _is_read(document.kind, document.api_version):
            self._add_item(msgspec.Raw(data), _NO_LIST, place)
        else:
            raise UnreadableList("not a list of Kubernetes objects: Object missing required field `items`")

    def look_at_items(self) -> Iterator[Seen]:
        """Yield the sight of every object, including objects that do not count."""
        for item in self.items:
            yield Seen(item.kind_name, look_at(item.data), item.place)

    def _add_list(self, data: bytes | msgspec.Raw, place: Place) -> None:
        page = _decode_page(data)
        metadata = page.metadata
        self.kinds |= _named_kinds(page)
        of_list = wire.Head(kind=page.kind.removesuffix("List"), api_version=page.api_version)
        key = (page.kind, page.api_version, metadata.resource_version)
        remaining = metadata.remaining_item_count or 0
        self.pages.append(ReadPage(place.source, key, len(page.items), metadata.continue_, remaining))
        is_reduced = KNOWN_KINDS in (metadata.annotations or {})
        for item in page.items:
            self._add_item(item, of_list, place._replace(is_listed=True, is_reduced=is_reduced))

    def _add_event(self, event: _Document, place: Place) -> None:
        """Add the object of a watch event; bookmarks and errors have none."""
        if event.type in {"ADDED", "MODIFIED", "DELETED"}:
            self._add_item(event.object, _NO_LIST, place, event.type)

    def _add_item(self, item: msgspec.Raw, of_list: wire.Head, place: Place, event: str = "") -> None:
        head = _HEAD.decode(item)
        if head.kind.endswith("List"):
            self._add_list(item, place)
            return
        kind, api_version = head.kind or of_list.kind, head.api_version or of_list.api_version
        self.items.append(_Item(kind, api_version, item, place, event))


_NO_LIST: Final = wire.Head()


def _is_read(kind: str, api_version: str) -> bool:
    """Return whether a single object is of a kind that is read, or of a foreign group and so may own pods."""
    return _find_kind(kind, api_version) is not None or kind == CONFIG_MAPS.name or _is_foreign(api_version)


def _is_foreign(api_version: str) -> bool:
    """Return whether an object is foreign; Kubernetes' own groups have one word or end in k8s.io."""
    group = api_version.rpartition("/")[0]
    return "." in group and not group.endswith((".k8s.io", "rebalancer.dev"))


class _Entry(NamedTuple):
    """An object of a file that counts: its kind (None if unread), its text, and its sight."""

    kind: ResourceKind | None
    data: msgspec.Raw
    seen: Seen

    @property
    def uid(self) -> str:
        return str(self.seen.sight.metadata.uid)

    @property
    def version(self) -> int:
        return _read_version(self.seen.sight.metadata.resource_version)


class _Entries(NamedTuple):
    """The objects of a file, the number of repeated objects, and the doubts about the file."""

    entries: list[_Entry]
    doubled: int
    doubts: Doubts


class _Controlled(wire.Wire, frozen=True):
    class Owners(wire.Wire, frozen=True):
        owner_references: list[wire.OwnerReference] | None = None

    metadata: Owners = Owners()


_CONTROLLED = msgspec.json.Decoder(_Controlled)
_OWN_GROUPS: Final = frozenset(kind.group for kind in (*KINDS, *OPTIONAL_KINDS))


def _read_entries(contents: FileContents) -> _Entries:
    """Return the objects of a file, each once, in its newest version."""
    joining = _Joining()
    for position, item in enumerate(contents.items):
        joining.add(item, position)
    entries, foreign = joining.entries, joining.foreign
    doubled = len(contents.items) - len(entries) + joining.manifests
    for key in joining.gone:
        entries.pop(key)
        foreign.pop(key, None)
    if foreign:
        owners = set(_find_controllers(entries.values()))
        for key, kind in foreign.items():
            if entries[key].uid in owners:
                entries[key] = entries[key]._replace(kind=kind)
    doubt_pages(contents.pages, joining.doubts)
    doubt_objects([entry.seen for entry in entries.values()], joining.doubts)
    return _Entries(list(entries.values()), doubled, joining.doubts)


@dataclass
class _Joining:
    """Joins the objects of dumps, of manifests beside them and of a watch, each once.

    Objects are identical if they have the same UID, or, without UIDs, the same kind, namespace and name. If two UIDs
    have the same name, a watch shows the second after the end of the first; lists that show both do not belong
    together.
    """

    entries: dict[object, _Entry] = field(default_factory=dict)
    foreign: dict[object, ResourceKind] = field(default_factory=dict)
    gone: set[object] = field(default_factory=set)
    named: dict[object, object] = field(default_factory=dict)
    """By name, the key of the object that has it now."""
    manifests: int = 0
    """How many objects without a UID repeat an object with one."""
    doubts: Doubts = field(default_factory=Doubts)

    def add(self, item: _Item, position: int) -> None:
        """Add the next object of the files."""
        kind, sight = _find_kind(item.kind_name, item.api_version), look_at(item.data)
        names = sight.metadata
        group, _, served = item.api_version.rpartition("/")
        is_foreign = kind is None and _is_foreign(item.api_version)
        full = (kind.group if kind is not None else group, item.kind_name, str(names.namespace), str(names.name))
        key = names.uid or (full if names.name else position)
        shown = f"{item.kind_name}.{group}" if is_foreign else item.kind_name
        entry = _Entry(kind, item.data, Seen(shown, sight, item.place))
        self._note(key, entry, item.event)
        if key not in self.entries or entry.version >= self.entries[key].version:
            self.entries[key] = entry
            if item.event == "DELETED":
                self.gone.add(key)
            else:
                self.gone.discard(key)
            if is_foreign:
                self.foreign[key] = make_owner_kind(item.kind_name, group, served, f"{item.kind_name.lower()}s")
        if kind is not None and names.name and key not in self.gone:
            self._name(full, key)

    def _note(self, key: object, entry: _Entry, event: str) -> None:
        """Note what a second version of an object shows, and a watch that does not begin with the first one."""
        if key in self.entries:
            _note_change(self.entries[key], entry, self.doubts)
        elif event in {"MODIFIED", "DELETED"} and self.doubts.began_late is None:
            self.doubts.began_late = entry.seen

    def _name(self, name: object, key: object) -> None:
        """Give a name to an object; of two objects with one name, only one counts."""
        before = self.named.setdefault(name, key)
        if before == key:
            return
        self.named[name] = key
        if before in self.gone:
            return
        first, second = self.entries[before], self.entries[key]
        if first.uid and second.uid:
            if is_successor(first.seen, second.seen, self.doubts):
                self.gone.add(before)
            return
        self.manifests += 1
        if first.uid:
            self.named[name] = before
            self.gone.add(key)
        else:
            self.gone.add(before)


def _note_change(first: _Entry, second: _Entry, doubts: Doubts) -> None:
    """Note that two lists show one pod or node in two versions, so they are from different times."""
    documents = {first.seen.place.document, second.seen.place.document}
    listed = first.seen.place.is_listed and second.seen.place.is_listed
    if not listed or first.version == second.version or len(documents) == 1 or first.seen.kind not in {"Pod", "Node"}:
        return
    older, newer = sorted((first, second), key=lambda entry: entry.version)
    if all({change.older, change.newer} != documents for change in doubts.changes):
        what = f"resourceVersion {older.version} and {newer.version} of {older.seen.kind} {older.seen}"
        doubts.changes.append(Change(older.seen.place.document, newer.seen.place.document, what))


def _find_controllers(entries: Iterable[_Entry]) -> Iterator[str]:
    """Yield the UIDs of the controllers of pods and ReplicaSets; other foreign objects are not read."""
    for entry in entries:
        if entry.seen.kind in {"Pod", "ReplicaSet"} and entry.kind is not None:
            try:
                references = _CONTROLLED.decode(entry.data).metadata.owner_references
            except msgspec.ValidationError:
                continue
            yield from (reference.uid for reference in references or () if reference.controller)


def _read_version(text: object) -> int:
    """Return a resourceVersion as a number (they can be compared from 1.35 on, and could in fact before)."""
    return int(text) if isinstance(text, str) and text.isdecimal() else -1


def _named_kinds(page: _ListPage) -> frozenset[str]:
    """Return the kind of a list, or the kinds that a reduced list names, even if it has no such objects."""
    named = _KIND_NAMES.intersection((page.metadata.annotations or {}).get(KNOWN_KINDS, "").split(","))
    kind = _find_kind(page.kind.removesuffix("List"), page.api_version)
    return named | {kind.name} if kind is not None else named


def _reduce(pairs: Iterable[tuple[ResourceKind, msgspec.Raw]]) -> tuple[list[bytes], list[Fault]]:
    items: list[bytes] = []
    faults: list[Fault] = []
    for kind, data in pairs:
        try:
            items.append(reduce_object(kind, data))
        except (msgspec.ValidationError, MalformedObject) as error:
            faults.append(_make_fault(kind.name, data, str(error)))
    return items, faults


@dataclass
class DecodedObjects:
    """Objects by the snapshot's field, the kinds that were read, and the faults."""

    objects: dict[str, list[Any]] = field(
        default_factory=lambda: {kind.field: [] for kind in (*KINDS, *OPTIONAL_KINDS)}
    )
    kinds: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    team_maps: list[ConfigMap] | None = None
    """The ConfigMaps of team policies; None (unknown) if the list has no ConfigMap at all."""
    unread_owners: dict[str, str] = field(default_factory=dict)
    """Why foreign owners could not be read; see `Snapshot.unread_owners`."""
    doubled: int = 0
    """How many repeated objects were left out."""
    doubts: Doubts = field(default_factory=Doubts)
    """Evidence that these are not the objects of one whole cluster at one time."""


def decode_file(contents: FileContents) -> DecodedObjects:
    """Decode lists as `kubectl get … -o json` prints them, the server's own `PodList` and so on, and single objects.

    Kinds that are not read are skipped. An empty list of one kind means that there are no such objects. A kind that is
    absent from a mixed list is unknown, unless the list itself names it, as a reduced list does.
    """
    gathered, intern = DecodedObjects(), Interner()
    gathered.kinds |= contents.kinds
    entries, gathered.doubled, gathered.doubts = _read_entries(contents)
    for kind, item, seen in entries:
        if kind is None:
            if seen.kind == CONFIG_MAPS.name:
                gathered.team_maps = [*(gathered.team_maps or ()), *_decode_team_map(item, intern)]
            continue
        decoded = decode(kind, item, intern)
        if kind.group not in _OWN_GROUPS:
            if isinstance(decoded, Fault):  # no warning, because most policies do not list this kind
                key = name_owner(kind.name, kind.group, decoded.namespace, decoded.name)
                gathered.unread_owners[key] = decoded.message
                continue
        else:
            gathered.kinds.add(kind.name)
        if isinstance(decoded, Fault):
            gathered.faults.append(decoded)
        else:
            gathered.objects[kind.field].append(decoded)
    return gathered


def _decode_team_map(data: msgspec.Raw, intern: Interner) -> Iterator[ConfigMap]:
    """Yield a ConfigMap that may be a team's policy, if it can be read."""
    if _IDENTITY.decode(data).metadata.name == POLICY_MAP:
        decoded = decode(CONFIG_MAPS, data, intern)
        if isinstance(decoded, ConfigMap):
            yield decoded


def _find_kind(name: str, api_version: str) -> ResourceKind | None:
    """Return the kind of an object by name and group, because foreign groups have Nodes, Services and NodePools, too.

    Known kinds are read in any version, and without an `apiVersion`, as in files written by hand.
    """
    kind = KIND_NAMED.get(name)
    if kind is not None and (not api_version or api_version.rpartition("/")[0] == kind.group):
        return kind
    return next((kind for kind in OPTIONAL_KINDS if (kind.name, kind.api_version) == (name, api_version)), None)


def make_snapshot(
    objects: Mapping[str, Sequence[Any]],
    *,
    taken_at: datetime,
    known: Iterable[str],
    version: Version = NEWEST,
    faults: Iterable[Fault] = (),
    scope: frozenset[str] | None = None,
    team_maps: Sequence[ConfigMap] | None = None,
    forbidden: Iterable[str] = (),
) -> Snapshot:
    """Make a snapshot of decoded objects; `known` names the kinds that were read, including those without objects.

    A kind that is not named is unknown, and so is an optional kind that may not be listed (`forbidden`). The snapshot's
    own `known` has the named optional kinds. Objects are sorted by name, so a live cluster and its file give equal
    snapshots.
    """
    named = frozenset(known)
    rows_of: dict[str, Any] = {field: tuple(_sort(rows)) for field, rows in objects.items()}
    rows_of["workloads"] = qualify_kinds(rows_of.get("workloads", ()))
    return Snapshot(
        taken_at=taken_at,
        version=version,
        unknown=(frozenset(KIND_NAMED) - named).union(forbidden),
        known=OPTIONAL & named,
        faults=tuple(faults),
        scope=scope,
        team_maps=team_maps,
        **rows_of,
    )


def _sort(rows: Sequence[Any]) -> Sequence[Any]:
    """Sort objects of one class by namespace, kind, name and `mutating`, as far as the class has them."""
    if not rows:
        return rows
    fields = ("namespace", "kind", "name", "mutating")
    return sorted(rows, key=attrgetter(*(name for name in fields if hasattr(rows[0], name))))
