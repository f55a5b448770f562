"""The card of a version begins with the last one before it."""

import pytest
import tensorflow as tf

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


def test_card_in_a_bucket_begins_with_the_last_one_also_if_it_was_rolled_back(
    bucket, object_store
):
    def write(version, text):
        seen = []
        model_cards.write_card(
            f"{bucket}/serving/{version}", lambda last: seen.append(last) or text
        )
        assert object_store.read(f"{bucket}/serving/{version}/README.md") == (
            text.encode()
        )
        return seen[0]

    assert write(9, "nine") is None
    assert write(10, "ten, with ö") == "nine"
    withdrawn = f"{bucket}/serving/{versions.WITHDRAWN}/10"
    tf.io.gfile.rename(f"{bucket}/serving/10", withdrawn)
    assert write(11, "eleven") == "ten, with ö"
    keys = object_store.keys(bucket)
    assert keys == [
        f"serving/{version}/README.md" for version in (".withdrawn/10", "11", "9")
    ]
