"""What several rows say is said once above them, of as many as name it."""

from rebalancer.adapters.web.sentences import Saying, find_shared

RETURNED = Saying("DomainReturned", "Zone c began to take pods.")
OTHER = Saying("DomainReturned", "Zone b began to take pods.")
BUDGET = Saying("StepExceedsBudget", "Allow at least one disruption.")


def test_a_sentence_is_said_of_every_row_that_names_it() -> None:
    """Also of one whose own words are another remedy: all of them have the name in their line."""
    rows = [[RETURNED], [RETURNED], [BUDGET], [BUDGET]]
    named = [["DomainReturned"], ["DomainReturned"], *[["StepExceedsBudget", "DomainReturned"]] * 2]
    assert [(one.name, one.number) for one in find_shared(rows, named)] == [
        ("DomainReturned", 4),
        ("StepExceedsBudget", 2),
    ]


def test_where_a_name_has_several_sentences_each_counts_its_own_rows() -> None:
    """Which of them is true of a row that has neither is not known."""
    rows = [[RETURNED], [RETURNED], [OTHER], [OTHER], [BUDGET]]
    named = [["DomainReturned"]] * 5
    assert [one.number for one in find_shared(rows, named)] == [2, 2]
