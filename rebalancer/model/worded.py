"""Closed lists whose members have a sentence for people beside their value."""

from enum import StrEnum
from typing import Self


class Worded(StrEnum):
    """A member is its value, for documents and metrics; `sentence` is for people."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> Self:
        """Make a member, which is its value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member
