"""The blocks of the migration page, executed as they are printed."""

import doctest
import re

import pytest

from pipeline.config.paths import REPOSITORY

pytestmark = pytest.mark.e2e

PAGE = REPOSITORY / "docs" / "from_the_tutorials.md"


@pytest.fixture
def after_make_run(finished, tmp_path, monkeypatch):
    """A working directory in which the finished run is that of `make run`."""
    sample = tmp_path / "output" / "sample"
    (sample / "serving").mkdir(parents=True)
    (sample / "artifacts").symlink_to(finished.paths.artifacts)
    (sample / "serving" / "sample").symlink_to(finished.paths.pushed)
    monkeypatch.chdir(tmp_path)


@pytest.mark.nightly
def test_every_block_gives_what_the_page_prints(after_make_run):
    blocks = re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) > 10
    session = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), {}, PAGE.name, str(PAGE), 0
    )
    report = []
    doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert not report, "".join(report)
