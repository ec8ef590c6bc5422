"""The table of faults cannot drift from the tests."""

import re

from tests.faults import FAULTS, PAGE, listed, tagged


def test_every_fault_has_a_test() -> None:
    assert [row for row, tests in tagged().items() if not tests] == []
    assert set(FAULTS) == set(range(1, max(FAULTS) + 1)) - {24, 49, 50}


def test_the_page_lists_exactly_the_tests_and_all_of_them_passed() -> None:
    """Otherwise: `make faults`."""
    page = PAGE.read_text()
    assert listed(page) == tagged()
    assert set(re.findall(r"\d+ (passed|failed|skipped|error)", page)) == {"passed"}
