"""Pages as text: whatever is in their objects, they are the same divided, and without `managedFields`."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import UnreadableList, decode_page
from rebalancer.decoding.page_text import OtherForm, divide_page, read_head, without_managed_fields
from tests.decoding.test_lists import POD, changed
from tests.decoding.test_shared_templates import DIFFERENCES

PIECES = ['"', "\\", "]", "}", "{", "[", ",", ":", "metadata", "spec", "managedFields", '},{"metadata":{', "items"]
NASTY = st.lists(
    st.sampled_from([*PIECES, '"managedFields":[', ']},"spec":{', "name", "a", "é", "\n"]), max_size=6
).map("".join)
"""Text of what the form of a page consists of."""

VALUES = st.recursive(
    NASTY | st.none() | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NASTY, inner, max_size=3),
    max_leaves=6,
)
NOTHING: dict[str, Any] = {}
OWNED: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just(NOTHING), lambda inner: st.dictionaries(NASTY.map("k:".__add__), inner, max_size=3), max_leaves=4
)
ENTRIES = st.lists(st.fixed_dictionaries({"manager": NASTY, "fieldsV1": OWNED}), max_size=3)
METADATA = st.fixed_dictionaries(
    {"name": NASTY}, optional={"labels": st.dictionaries(NASTY, NASTY, max_size=2), "managedFields": ENTRIES}
)
OBJECTS = st.lists(
    st.fixed_dictionaries({"metadata": METADATA}, optional={"spec": VALUES, "status": VALUES}), max_size=5
)


def written(items: list[Any], **metadata: Any) -> bytes:
    """Return a page as the API server writes it."""
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9", **metadata}, "items": items}
    return json.dumps(page, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def divided(data: bytes, length: int) -> list[Any]:
    return [item for part in divide_page(data, length)[1] for item in json.loads(part)]


@given(OBJECTS, st.integers(1, 200))
def test_divided_objects_are_those_of_the_page(items: list[Any], length: int) -> None:
    """Or a part is no JSON, where an object contains a list of such objects."""
    data = written(items)
    try:
        parts = divided(data, length)
    except json.JSONDecodeError:
        assert data.count(b'},{"metadata":{') >= len(items)
    else:
        assert parts == items
    assert divided(data, len(data)) == items


@given(OBJECTS)
def test_nothing_but_managed_fields_is_left_out(items: list[Any]) -> None:
    data = written(items)
    page = json.loads(b"".join(without_managed_fields(data)))
    for before, after in zip(items, page["items"], strict=True):
        left = after["metadata"].get("managedFields")
        assert left == before["metadata"].get("managedFields") or left == []
        last_before_spec = list(before["metadata"])[-1] == "managedFields" and list(before)[:2] == ["metadata", "spec"]
        if last_before_spec and "]" not in json.dumps(before["metadata"]["managedFields"])[:-1]:
            assert left == []
        assert {**after["metadata"], "managedFields": 0} == {**before["metadata"], "managedFields": 0}
        assert {**after, "metadata": 0} == {**before, "metadata": 0}


@pytest.mark.parametrize(
    "item",
    [
        b'{"metadata":{"managedFields":[{"manager":"a"}],"name":"x"},"spec":{"a":[]},"status":{}}',
        b'{"metadata":{"name":"x","managedFields":[{"manager":"a"}]},"status":{"a":[]},"spec":{}}',
        b'{"spec":{},"metadata":{"name":"x","managedFields":[{"manager":"a"}]}}',
        b'{"metadata":{"name":"x","managedFields":[]},"kind":"y"},{"metadata":{"name":"z"},"spec":{"a":[1]}}',
        b'{"metadata":{"name":"x","managedFields":[{"manager":"a"',
    ],
)
def test_managed_fields_of_another_form_stay(item: bytes) -> None:
    """Where they are not the last of the metadata, the spec does not follow, or the page is cut off."""
    assert b"".join(without_managed_fields(b'{"items":[' + item + b"]}")) == b'{"items":[' + item + b"]}"


def test_managed_fields_may_be_far_apart_and_have_brackets_in_their_keys() -> None:
    key = 'v:{"items":[{"key":"ca.crt"}],"a":"]},"}'
    entries = [{"manager": "kubelet", "fieldsV1": {key: {".": {}}, 'k:{"uid":"x]"}': {}}}]

    def items(managed: list[Any]) -> list[Any]:
        return [
            {"metadata": {"name": name, "managedFields": managed}, "spec": {"text": "x" * number}}
            for number, name in enumerate("ab" * 30, start=16_300)
        ]

    page = json.loads(b"".join(without_managed_fields(written(items(entries)))))
    assert page["items"] == items([])


@pytest.mark.parametrize(("path", "value"), DIFFERENCES)
def test_a_page_of_the_servers_form_is_decoded_as_one_of_another(path: str, value: Any) -> None:
    items = [POD, changed(path, value), POD]
    page = {"items": items, "metadata": {"resourceVersion": "9"}}
    other, same = (decode_page(PODS, data, Interner()) for data in (json.dumps(page).encode(), written(items)))
    assert other == same
    assert decode_page(PODS, memoryview(b"".join(without_managed_fields(written(items)))), Interner()) == same


def test_a_malformed_object_leaves_the_others_of_its_page() -> None:
    items = [POD, changed("metadata.labels", 5), POD]
    page = decode_page(PODS, written(items, **{"continue": "more"}), Interner())
    assert (len(page.objects), page.resource_version, page.continue_token) == (2, "9", "more")
    assert ["labels" in fault.message for fault in page.faults] == [True]


@pytest.mark.parametrize(
    "data",
    [
        b'{"items": []}',
        b'{"items":[],"metadata":{}}',
        b'{"items":null}',
        b"[]",
        b"]}",
        b"",
        b'{"metadata":{"continue":5},"items":[]}',
        b'{"metadata":null,"items":[]}',
        b'{"metadata":{},,"items":[]}',
        b'"items":[]}',
        b'x"items":[]}',
        b'{"items":[]}\x0b',
    ],
)
def test_a_page_of_another_form_is_not_divided(data: bytes) -> None:
    """Nor is one whose metadata cannot be read: without its token it would be taken for the last page."""
    with pytest.raises(OtherForm):
        divide_page(data)


def test_a_page_whose_metadata_is_malformed_is_no_list() -> None:
    body = json.dumps(POD, separators=(",", ":")).encode()
    for head in (b'{"metadata":{"continue":5},', b'{"metadata":null,', b"garbage ", b'{"kind":5,', b'{"metadata":{},,'):
        with pytest.raises(UnreadableList):
            decode_page(PODS, head + b'"items":[' + body + b"]}", Interner())


def test_items_may_be_named_in_the_metadata_too() -> None:
    page = decode_page(PODS, written([POD], annotations={"items": "x"}, **{"continue": "more"}), Interner())
    assert (len(page.objects), page.continue_token) == (1, "more")


def test_what_follows_the_objects_is_not_lost() -> None:
    """The metadata may come last, and a field of another name may end as the objects do."""
    body = json.dumps(POD, separators=(",", ":")).encode()
    page = decode_page(PODS, b'{"items":[' + body + b'],"metadata":{"continue":"more"}}', Interner())
    assert (len(page.objects), page.continue_token) == (1, "more")
    page = decode_page(
        PODS, b'{"metadata":{"continue":"more"},"items":[' + body + b'],"others":[' + body + b"]}", Interner()
    )
    assert (len(page.objects), page.continue_token) == (1, "more")
    with pytest.raises(UnreadableList):
        decode_page(PODS, b'{"metadata":{},"items":[' + body + b"}]}", Interner())


def test_the_head_of_a_page_is_read_without_its_objects() -> None:
    assert read_head(written([POD], **{"continue": "more"})[:-50]).continue_ == "more"
    assert read_head(b'{"metadata":{"continue":5},"items":[').continue_ == ""
    assert read_head(b'{"items": [').continue_ == ""


def test_no_objects_are_no_parts() -> None:
    assert list(divide_page(written([]))[1]) == []
