"""The names in the documents exist; the site and its reference are complete."""

import inspect
import os
import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser

import click
import pytest

from contracts.fingerprint import FIRST_PARTY
from contracts.versions import served_versions
from pipeline import exit_status
from pipeline.cli.main import SECTIONS, main
from pipeline.config.paths import REPOSITORY
from pipeline.operations import record as run_record
from tools import reference

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


@pytest.mark.parametrize(
    ("document", "page"),
    reference.pages().items(),
    ids=[document.stem for document in reference.pages()],
)
def test_page_of_the_reference_is_what_the_code_says(document, page):
    assert document.read_text() == page, "python -m tools.reference"


def test_reference_has_every_command_option_and_exit_status():
    page = (reference.FOLDER / "commands.md").read_text()
    assert {c.name for commands in SECTIONS.values() for c in commands} == set(
        main.commands
    )
    for name, command in main.commands.items():
        _, _, section = page.partition(f"\n### {name}\n")
        section, _, _ = section.partition("\n### ")
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                spelled = parameter.opts[0] if parameter.opts[0][0] == "-" else ""
                assert spelled in section
    statuses = {
        value
        for name, value in vars(exit_status).items()
        if name.isupper() and isinstance(value, int)
    }
    assert statuses == set(exit_status.DETAILS) == set(exit_status.MEANINGS)


def test_layouts_of_the_reference_have_every_file_of_their_owner():
    for owner in (run_record, served_versions):
        layout = " ".join(reference.read_layout(owner))
        source = inspect.getsource(owner)
        constants = re.findall(r"^((?:[A-Z]+_)?FILE) = ", source, re.MULTILINE)
        names = [getattr(owner, constant) for constant in constants]
        assert names
        assert all(name in layout for name in names)


class _Loaded(HTMLParser):
    """Collects what a page loads, and which addresses it links to."""

    def __init__(self):
        super().__init__()
        self.loaded = []

    def handle_starttag(self, tag, attrs):
        names = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
        address = dict(attrs).get(names.get(tag, ""))
        if address is not None:
            self.loaded.append(address)


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("npm") or os.environ.get("SITE_MUST_NOT_SKIP")),
    reason="no npm, from which the site has Mermaid",
)
def test_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    command = ["make", "docs", f"ARGS=--site-dir {tmp_path}"]
    built = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    names = {page.relative_to(tmp_path).with_suffix(".md").as_posix() for page in pages}
    documents = (REPOSITORY / "docs").rglob("*.md")
    assert names >= {
        path.relative_to(REPOSITORY / "docs").as_posix() for path in documents
    }
    for page in pages:
        parser = _Loaded()
        parser.feed(page.read_text())
        assert not [a for a in parser.loaded if re.match("(https?:)?//", a)]
    assert (
        'id="pipeline.api.running.run"' in (tmp_path / "reference/api.html").read_text()
    )
