"""Checks of a pushed model from Python."""

import pytest

from pipeline import Recipe, check
from tests import warm_probe
from tests.pipeline.checked_model import OTHER, TEXTS, CheckedModel
from tests.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def forked_probes(monkeypatch):
    warm_probe.install(monkeypatch)


def test_results_have_the_missed_rows_and_are_html_in_a_notebook(tmp_path, export):
    checked = CheckedModel.make(tmp_path / "project", export("sentences"))
    recipe = Recipe(checked.recipe)
    report = check(checked.version, recipe)
    assert not report.refusals
    assert repr(report) == "ChecksReport(1 check: 0 refused, 0 warned)"
    checked.require([*checked.labels[:-1], OTHER[checked.labels[-1]]])
    report = check(str(checked.version.parent), checked.recipe)
    (result,) = report.results
    assert (result.name, result.status) == ("required_rows", "refused")
    (row,) = result.rows
    assert row.texts == {"sentence": TEXTS[-1]}
    result.rows[0].texts["sentence"] = "<script>alert(1)</script>"
    html = report._repr_html_()
    assert "<b>✕ refused</b> Required rows: 2 of 3 required rows" in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>" not in html
    with refused("E-option-missing", setting="recipe"):
        check(checked.version)
