"""The content of a report."""

from report.content import Report
from tests.report import samples


def test_report_of_an_earlier_release_is_read_without_what_is_not_shown():
    content = samples.pushed().as_json()
    content |= {"ages": {"rows": 4}, "text_columns": [{"name": "sentence1"}]}
    content["serving_check"] |= {"group_words": [{"name": "gender"}], "warnings": ["a"]}
    del content["checks"]
    report = Report.model_validate(content)
    expected = samples.pushed().model_copy(update={"checks": []})
    assert report.as_json() == expected.as_json()
