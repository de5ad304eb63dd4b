"""Documents in pieces are the same as at once, however long their lists."""

import pytest

from rebalancer.documents.document import CamelCaseStruct, WorkloadName, json_chunks, to_json


class Listing(CamelCaseStruct, frozen=True, kw_only=True):
    """A document with a list and what may come before and after it."""

    first: str = "a"
    names: tuple[WorkloadName, ...]
    numbers: dict[str, int]


@pytest.mark.parametrize("entries", [0, 1, 99, 100, 101, 200, 201])
def test_the_pieces_of_a_list_are_the_whole(entries: int) -> None:
    """Also where a piece ends with the list, and whatever a name contains."""
    names = tuple(WorkloadName(kind="Pod", name=f'[line\n  ] {number} "é"') for number in range(entries))
    document = Listing(names=names, numbers={"b": 1, "a": entries})
    pieces = list(json_chunks(document))
    assert "".join(pieces).encode() == to_json(document)
    assert len(max(pieces, key=len)) < 100 * 110
