"""What the documents claim, and what they must describe."""

import re

import pytest

from pipeline.config.paths import REPOSITORY
from tools import list_settings

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
CLAIMS = [
    claim
    for document in DOCUMENTS
    for claim in re.findall(r"`([\w/]+\.py)::(test_\w+)`", document.read_text())
]


@pytest.mark.parametrize(("path", "name"), CLAIMS)
def test_test_that_a_document_names_exists(path, name):
    assert f"def {name}(" in (REPOSITORY / "tests" / path).read_text()


def test_every_setting_is_described():
    page = list_settings.page()
    assert list_settings.DOCUMENT.read_text() == page, "python -m tools.list_settings"
