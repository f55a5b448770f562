"""The card of a version begins with the last one before it."""

import pytest

from components import model_cards, versions


@pytest.fixture
def write(tmp_path):
    """Writes the card of a version; returns the card that it was rendered from."""

    def write(version, text, parent=""):
        directory = tmp_path / parent / str(version)
        directory.mkdir(parents=True, exist_ok=True)
        seen = []
        model_cards.write_card(
            str(directory), lambda previous: seen.append(previous) or text
        )
        assert (directory / "README.md").read_text() == text
        return seen[0]

    return write


def test_card_begins_with_that_of_its_version_or_of_the_one_before(write):
    assert write(9, "nine") is None
    assert write(10, "ten") == "nine"
    assert write(10, "ten again") == "ten"
    assert write(8, "eight") is None


def test_card_of_a_version_that_was_rolled_back_counts(write, tmp_path):
    write(1, "one")
    write(2, "two, with what a person wrote")
    (tmp_path / versions.WITHDRAWN).mkdir()
    (tmp_path / "2").rename(tmp_path / versions.WITHDRAWN / "2")
    assert write(3, "three") == "two, with what a person wrote"
    assert write(1, "one again") == "one"
