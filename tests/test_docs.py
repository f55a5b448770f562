"""What the documents claim."""

import re

import pytest

from pipeline.config.paths import REPOSITORY

CLAIMS = [
    claim
    for document in sorted((REPOSITORY / "docs").glob("*.md"))
    for claim in re.findall(r"`([\w/]+\.py)::(test_\w+)`", document.read_text())
]


@pytest.mark.parametrize(("path", "name"), CLAIMS)
def test_test_that_a_document_names_exists(path, name):
    assert f"def {name}(" in (REPOSITORY / "tests" / path).read_text()
