"""What the documents claim."""

import re

import pytest

from pipeline.paths import REPOSITORY

CLAIMS = re.findall(
    r"`([\w/]+\.py)::(test_\w+)`", (REPOSITORY / "docs" / "training.md").read_text()
)


@pytest.mark.parametrize(("path", "name"), CLAIMS)
def test_test_that_a_document_names_exists(path, name):
    assert f"def {name}(" in (REPOSITORY / "tests" / path).read_text()
