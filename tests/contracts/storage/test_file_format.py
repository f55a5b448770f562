"""The number of the format of the files that the project reads back."""

import json

import pytest

from contracts.storage import file_format


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
    with pytest.raises(file_format.FormatError) as refused:
        file_format.parse(text, "/runs/run.json")
    assert refused.value.message == (
        f"/runs/run.json has the format {number!r}, and this release reads the format "
        "1: use the release that wrote the file, or another output directory"
    )
