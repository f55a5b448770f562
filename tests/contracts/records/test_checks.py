"""The results of checks."""

import math

import pytest

from contracts.records.checks import CheckResult, ChecksReport, Table, sort_results
from contracts.records.evaluation import Estimate


def result_of(status, **fields):
    return CheckResult(name="speed", status=status, sentence="it is slow", **fields)


def test_cells_are_read_as_they_were_written(tmp_path):
    cells = ["7", 7.5, None, Estimate(value=0.5, interval=(0.4, 0.6)), math.inf]
    table = Table(columns=list("abcdef"), rows=[[*cells, math.nan]])
    ChecksReport(results=[result_of("passed", table=table)]).write(str(tmp_path))
    (result,) = ChecksReport.read(str(tmp_path)).results
    (row,) = result.table.rows
    assert row[:-1] == cells
    assert math.isnan(row[-1])


def test_row_of_another_width_than_its_table_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells, not 2"):
        Table(columns=["a", "b"], rows=[["a"]])


def test_refusals_and_warnings_have_advice_and_come_first():
    results = [
        result_of(status, advice="cut texts")
        for status in ("not applicable", "passed", "warning", "refused")
    ]
    report = ChecksReport(results=results)
    message = "it is slow; cut texts (checks.speed) [E-check-failed]"
    assert report.refusals == report.warnings == [message]
    assert results[1].message == "it is slow"
    assert sort_results(results) == results[::-1]
