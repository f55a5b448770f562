"""Rows in the formats that need other packages than the standard library."""

import types

import pyarrow as pa
import pytest

from prediction.batch import output_formats


def test_lack_of_memory_refuses_no_row(monkeypatch):
    def allocate(*_, **__):
        return pa.allocate_buffer(1 << 62)  # more memory than there is

    serializer = output_formats.Parquet(pa.schema({"left": pa.string()}))
    monkeypatch.setattr(pa, "RecordBatch", types.SimpleNamespace(from_pylist=allocate))
    with pytest.raises(MemoryError):
        serializer.serialize({"left": "a"})
