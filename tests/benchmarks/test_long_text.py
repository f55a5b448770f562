"""The benchmark of long texts in its smallest form."""

import pytest

from benchmarks import long_text
from contracts.packing import LongTextConfig
from tests import tiny

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(
    ("in_memory", "expected"),
    [
        (2, ["4 windows, 8 of 8 at a time", "4 windows, 2 of 8 at a time"]),
        (100, ["4 windows, 8 of 8 at a time"]),
    ],
)
def test_windows_are_compared_with_a_truncated_one(tmp_path, in_memory, expected):
    encoder = str(tiny.write_encoder(tmp_path / "encoder"))
    windows = LongTextConfig(window=16, stride=8, windows_in_memory=in_memory)
    table = long_text.measure(encoder, windows, tokens=40, rows=2, count=1)
    _, _, *lines = table.splitlines()
    names = [line.split("|")[1].strip() for line in lines]
    assert names == ["truncated to a window", *expected]
