"""The description of columns."""

from pipeline.onboarding.columns import Column
from pipeline.onboarding.inspection import ColumnInspection


def count_values(*values):
    column = Column("column")
    for value in values:
        column.add(value)
    return ColumnInspection.of(column).values


def test_different_values_are_counted_up_to_a_thousand():
    assert count_values("one", "two", "one") == 2
    assert count_values(["a", "b"], [], ["b"]) == 2
    assert count_values([0, 1, 0], [1, 0, 0]) is None
    assert count_values() == 0
    assert count_values(*(f"text {number}" for number in range(1_500))) is None
