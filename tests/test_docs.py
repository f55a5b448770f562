"""The names in the documents exist, and the documents describe every setting."""

import re
import shlex

import click
import pytest

from modules.fingerprint import FIRST_PARTY
from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from tools import list_settings

DOCUMENTS = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "benchmarks" / "README.md",
    REPOSITORY / "SECURITY.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "docs" / "notebooks").glob("*.py")),
]
MAKEFILE = REPOSITORY / "Makefile"
CLAIMS = [
    claim
    for document in DOCUMENTS
    for claim in re.findall(
        r"`([\w/]+\.py)::(test_\w+)`( \(nightly\))?", document.read_text()
    )
]


@pytest.mark.parametrize(("path", "name", "note"), CLAIMS)
def test_test_that_a_document_names_exists_and_is_nightly_if_it_says_so(
    path, name, note
):
    text = (REPOSITORY / "tests" / path).read_text()
    before, found, _ = text.partition(f"def {name}(")
    assert found
    marks = re.findall(r"^pytestmark = .*nightly", text, re.MULTILINE)
    marks += re.findall(
        r"^@pytest\.mark\.nightly$", before.rpartition("\n\n\n")[2], re.MULTILINE
    )
    assert bool(marks) == bool(note)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_files_and_make_targets_that_a_document_names_exist(document):
    text = document.read_text()
    targets = re.findall(r"^([a-z-]+):", MAKEFILE.read_text(), re.MULTILINE)
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets
    for link in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (document.parent / link).exists()
    folders = ("configs", "deploy", "docs", "sample_data", "serving", "stacks", "tools")
    tops = "|".join((*FIRST_PARTY, *folders, "benchmarks"))
    for path in re.findall(rf"`((?:{tops})/[\w./-]+\.\w+)`", text):
        assert (REPOSITORY / path.replace("NAME", "1.21")).exists()


COMMANDS = [
    (document.stem, command)
    for document in DOCUMENTS
    for text in [re.sub("^# ?", "", document.read_text(), flags=re.M)]  # of a notebook
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    for command in re.findall(
        r"^\.venv/bin/python -m pipeline (.+)$", block.replace("\\\n", " "), re.M
    )
]


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_command_of_a_document_has_the_options_that_it_names(document, command):
    name, *arguments = shlex.split(command, comments=True)
    cli = main.commands[name]
    cli.make_parser(click.Context(cli)).parse_args(arguments)


def test_every_setting_is_described():
    page = list_settings.page()
    assert list_settings.DOCUMENT.read_text() == page, "python -m tools.list_settings"


def test_every_exit_status_is_described():
    text = (REPOSITORY / "README.md").read_text()
    cells = re.findall(r"^\| (\d+(?:, \d+)*) \|", text, re.MULTILINE)
    statuses = [int(number) for cell in cells for number in cell.split(", ")]
    assert statuses == list(exit_status.MEANINGS)
