"""Serializing rows with predictions."""

import hypothesis
import pytest
from hypothesis import strategies as st

from ingest.rows.row_file import RowFile
from prediction import serializers

# NUL: Python 3.10 reads no CSV with it.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("labels", "cell"),
    [([], b""), (["a", "b, c"], b'"a|b, c"'), (["a|b"], b'"[""a|b""]"')],
)
def test_labels_are_one_cell_of_a_table(labels, cell):
    table = serializers.Table(["id", "prediction"], "csv")
    assert table.serialize({"id": 1, "prediction": labels}) == b"1," + cell


@hypothesis.settings(deadline=None)
@hypothesis.given(
    rows=st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), min_size=1)
)
def test_csv_that_is_written_is_read_back(tmp_path_factory, rows):
    table = serializers.Table(["a", "b"], "csv")
    path = tmp_path_factory.mktemp("csv") / "out.csv"
    lines = [table.header, *map(table.serialize, rows)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert [row for _, row in RowFile(str(path), "csv").read()] == rows
