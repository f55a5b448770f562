"""What the documents claim, and what they must describe."""

import re
import typing

import pytest
from pydantic import BaseModel

from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import Config

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
CLAIMS = [
    claim
    for document in DOCUMENTS
    for claim in re.findall(r"`([\w/]+\.py)::(test_\w+)`", document.read_text())
]


def settings(model, section=""):
    """Returns the dotted keys of all settings of a section."""
    keys = []
    for name, field in model.model_fields.items():
        key = f"{section}{name}"
        types = typing.get_args(field.annotation) or (field.annotation,)
        if types[0] is BeamConfig and section:
            continue  # the same settings as those of the section `beam`
        if isinstance(types[0], type) and issubclass(types[0], BaseModel):
            keys += settings(types[0], f"{key}.")
        else:
            keys.append(key)
    return keys


@pytest.mark.parametrize(("path", "name"), CLAIMS)
def test_test_that_a_document_names_exists(path, name):
    assert f"def {name}(" in (REPOSITORY / "tests" / path).read_text()


@pytest.mark.parametrize("key", settings(Config))
def test_setting_is_described(key):
    """By its dotted key in code font, or by its name in the first column of a table."""
    name = key.rpartition(".")[2]
    mention = re.compile(rf"`{key}`|`{key}[:=][^`]*`|^\| `{name}` \|", re.MULTILINE)
    assert any(mention.search(document.read_text()) for document in DOCUMENTS), (
        f"{key} is not described in README.md or docs/*.md"
    )
