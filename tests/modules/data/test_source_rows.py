"""Records are found in the files that they came from."""

import json

import pytest

from modules.data import source_rows
from modules.data.row_facts import hash_record
from modules.data.source_rows import LOCATIONS_FILE, LocationWriter
from tests import records


def examples(*indices):
    return [records.example(idx=[index]) for index in indices]


def locate(directory, keys, pattern="*.tfrecord*", split="train"):
    hashes = [
        (split, hash_record(records.example(idx=[index]).SerializeToString()))
        for index in keys
    ]
    locations = source_rows.locate(str(directory), {split: pattern}, hashes)
    return [locations.get(key) for key in hashes]


def test_record_of_a_tfrecord_is_named_by_file_and_number_from_1(tmp_path):
    first = records.write(tmp_path / "train-0.tfrecord", examples(1, 2))
    second = records.write(tmp_path / "train-1.tfrecord.gz", examples(3, 4, 5))
    found = locate(tmp_path, [4, 1])
    assert found == [[f"{second}:2"], [f"{first}:1"]]


def test_record_of_a_text_is_named_by_file_and_line(tmp_path):
    records.write(tmp_path / "train" / "0.tfrecord.gz", examples(1, 2, 3))
    records.write(tmp_path / "train" / "1.tfrecord.gz", examples(4, 5))
    with LocationWriter(tmp_path / "train") as writer:
        for file, line in (("a.csv", 2), ("a.csv", 3), ("a.csv", 7), ("b.csv", 2)):
            writer.add(f"/data/{file}", line)
        writer.add("/data/b.csv", 3)
    found = locate(tmp_path, [1, 2, 3, 4, 5], "train/*.tf*record*")
    assert found == [
        [f"/data/{place}"] for place in ("a.csv:2", "a.csv:3", "a.csv:7", "b.csv:2")
    ] + [["/data/b.csv:3"]]


def test_consecutive_rows_take_one_line(tmp_path):
    with LocationWriter(tmp_path) as writer:
        for row in (*range(2, 1000), *range(1001, 2000)):
            writer.add("/data/a.csv", row)
    lines = (tmp_path / LOCATIONS_FILE).read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {"record": 0, "file": "/data/a.csv", "row": 2},
        {"record": 998, "file": "/data/a.csv", "row": 1001},
    ]


def test_repeated_record_is_found_at_all_its_locations(tmp_path):
    path = records.write(tmp_path / "train.tfrecord", examples(1, 2, 1, 1))
    first, second = locate(tmp_path, [1, 1])
    assert first == second == [f"{path}:1", f"{path}:3"]


@pytest.mark.parametrize("pattern", ["*.tfrecord", "absent/*"])
def test_record_of_a_source_that_changed_is_not_found(pattern, tmp_path):
    records.write(tmp_path / "train.tfrecord", examples(1, 2))
    assert locate(tmp_path, [9], pattern) == [None]
