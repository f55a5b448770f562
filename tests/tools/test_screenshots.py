"""The pictures of the README."""

import pytest
from click.testing import CliRunner

from report import page
from tests import browser
from tests.report import samples

screenshots = pytest.importorskip(
    "tools.screenshots", reason="Python's playwright is not installed"
)
MOST_BYTES = 200_000


def test_pictures_need_a_finished_run(tmp_path):
    result = CliRunner().invoke(screenshots.main, ["--output", str(tmp_path)])
    assert result.exit_code == 1
    assert "has no finished run" in result.output


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("picture", screenshots.ALL[:3], ids=lambda p: p.view)
def test_pictures_of_a_report_are_small(tmp_path, picture):
    path = tmp_path / "report.html"
    path.write_text(page.render(samples.pushed()), encoding="utf-8")
    with browser.launched() as chromium:
        screenshots.take(chromium, picture, path.as_uri(), tmp_path / picture.file)
    assert 5_000 < (tmp_path / picture.file).stat().st_size < MOST_BYTES
