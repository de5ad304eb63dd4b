"""Text fitted to a terminal: no line wider than it, no word broken, colours that take no width."""

import re

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.visible import visible
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, finish_line, join_lines, sections, visible_width

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=30)
CELLS = st.text("abcdefgh", min_size=1, max_size=9)


@given(WORDS, st.integers(20, 60), st.sampled_from(["", "    "]))
def test_lines_fit_and_words_stay_whole(words: list[str], width: int, indent: str) -> None:
    """Every word is there, in its order, and no line is wider than the terminal."""
    lines = TextLayout(width=width).wrap(" ".join(words), indent)
    assert " ".join(lines).split() == words
    assert all(len(line) <= width and line.startswith(indent) for line in lines)


@given(WORDS, st.integers(20, 60))
def test_colours_change_no_line(words: list[str], width: int) -> None:
    """Without the codes the text is the same."""
    plain, colored = TextLayout(width=width), TextLayout(width=width, color=True)
    painted = " ".join(colored.paint(word, Style.BAD) for word in words)
    shown = map(finish_line, colored.wrap(painted))
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in shown] == plain.wrap(" ".join(words))


@given(st.lists(st.tuples(CELLS, CELLS, WORDS.map(" ".join)), min_size=1, max_size=5), st.integers(30, 120))
def test_a_table_fits_and_has_every_cell(rows: list[tuple[str, str, str]], width: int) -> None:
    """The last column is wrapped; where hardly any room is left for it, it has lines of its own."""
    lines = TextLayout(width=width).table(("ONE", "TWO", "REST"), rows)
    assert all(visible_width(line) <= width for line in lines)
    assert " ".join(lines).split() == [
        word for row in (("ONE", "TWO", "REST"), *rows) for word in " ".join(row).split()
    ]


def test_a_narrow_table_has_its_last_column_below() -> None:
    """It is indented below the row that it belongs to."""
    rows = [("a" * 30, "b" * 20, "one two three four five six seven eight nine ten")]
    assert TextLayout(width=60).table(("LEFT", "RIGHT", "REST"), rows)[-2:] == [
        f"{'a' * 30}  {'b' * 20}",
        "    one two three four five six seven eight nine ten",
    ]


def test_columns_that_do_not_fit_stand_below_beside_the_last() -> None:
    """Each in its place: a name is found where it is in the other rows."""
    head, row = ("NAME", "KEY", "STATE", "COUNTS"), ("a" * 12, "zone", "Violated", "eu-west-1a\xa03   eu-west-1b\xa03")
    assert TextLayout(width=24).table(head, [row, ("b", "node", "Unknown", "c\xa00")]) == [
        "NAME          KEY",
        "    STATE     COUNTS",
        "aaaaaaaaaaaa  zone",
        "    Violated",
        "    eu-west-1a 3",
        "    eu-west-1b 3",
        "b             node",
        "    Unknown   c 0",
    ]


@given(st.integers(20, 40), st.integers(1, 4))
def test_a_broken_line_begins_where_its_indentation_ends(width: int, spaces: int) -> None:
    """However many spaces are between the words that it is broken at."""
    lines = TextLayout(width=width).wrap((" " * spaces).join(["eu-west-1a:3"] * 12), "  ", "    ")
    assert lines[0].startswith("  eu")
    assert all(line.startswith("    eu") for line in lines[1:])


def test_without_a_terminal_nothing_is_wrapped_or_coloured() -> None:
    """A line can be searched for as a whole."""
    assert PLAIN.wrap("word " * 99) == ["word " * 99]
    assert PLAIN.heading("Plan") == "Plan"
    assert join_lines([TextLayout(color=True).heading("Plan")]) == "\x1b[1mPlan\x1b[0m\n"


def test_a_word_wider_than_the_terminal_has_a_line_of_its_own() -> None:
    """It is not broken, so that a name can be copied."""
    assert TextLayout(width=10).wrap("see " + "x" * 20 + " now", hang="  ") == ["see", "  " + "x" * 20, "  now"]


def test_sections_are_divided_by_an_empty_line() -> None:
    """Empty ones leave none."""
    assert sections([[], ["a"], [], ["b", "c"]]) == ["a", "", "b", "c"]


@given(st.lists(st.text(max_size=12) | st.just("\x1b[31m"), max_size=5), st.booleans())
def test_a_text_has_the_line_breaks_and_colours_that_we_give_it_and_no_other(texts: list[str], color: bool) -> None:
    """Whatever its lines are made of: a name with the code of a colour, or with a line break, is shown."""
    layout = TextLayout(color=color)
    shown = join_lines(f"{layout.paint(text, Style.BAD)}{text}" for text in texts)
    codes = ("\x1b[31m", "\x1b[0m") if color else ("", "")
    expected = [f"{codes[0]}{visible(text)}{codes[1]}{visible(text)}" if text else "" for text in texts]
    assert shown.split("\n") == [*expected, ""]


def test_a_column_is_as_wide_as_its_cells_are_shown() -> None:
    """What is made visible takes more columns than it has characters."""
    assert TextLayout(width=40).table(("A", "B"), [("\x1b[2J", "b")])[0] == "A        B"
