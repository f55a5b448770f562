"""Items on disk."""

from ingest.rows.row_errors import EncodingError, Location
from ingest.rows.spool import Spool


def test_items_can_be_read_repeatedly_and_concurrently(tmp_path):
    items = [(Location("a.csv", n), {"text": f"é {n}"}) for n in range(3000)]
    spool = Spool(tmp_path)
    assert list(spool) == []
    for item in items[:2000]:
        spool.append(item)
    assert list(spool) == items[:2000]
    for item in items[2000:]:
        spool.append(item)
    assert list(zip(spool, spool, strict=True)) == list(zip(items, items, strict=True))


def test_file_is_in_the_directory_and_has_no_name(tmp_path):
    spool = Spool(tmp_path)
    spool.append("x" * 5000)
    assert len(list(spool)) == 1
    assert list(tmp_path.iterdir()) == []


def test_errors_keep_their_type_and_message():
    spool = Spool()
    spool.append(EncodingError("column 3: the byte 0xe9 is not utf-8"))
    (error,) = spool
    assert type(error) is EncodingError
    assert str(error) == "column 3: the byte 0xe9 is not utf-8"
