"""The number of the format of the files that the project reads back."""

import json

import pytest

from contracts.storage import file_format
from tests.refusals import refused


def test_content_is_read_without_the_number_it_was_written_with():
    text = json.dumps(file_format.with_format({"id": "7"}))
    assert json.loads(text) == {"format": 1, "id": "7"}
    assert file_format.parse(text, "run.json") == {"id": "7"}


@pytest.mark.parametrize("content", [{"id": "7"}, ["id"], None])
def test_file_without_a_number_is_read(content):
    assert file_format.parse(json.dumps(content), "run.json") == content


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_unknown_number_is_refused_with_the_file_and_what_to_do(number):
    text = json.dumps({"format": number, "id": "7"})
    with refused(
        "E-file-format-other",
        file_format.FormatError,
        setting="/runs/run.json",
        got=f"its format is {number!r}",
        allowed="1, which this release reads",
    ):
        file_format.parse(text, "/runs/run.json")
