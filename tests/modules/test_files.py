"""Files that appear complete, on a file system and on an object store."""

import math

import pytest
import tensorflow as tf

from modules import file_format, files


@pytest.fixture(params=["local", "remote"])
def directory(request, tmp_path):
    if request.param == "local":
        return str(tmp_path)
    return f"{request.getfixturevalue('bucket')}/files"


def test_json_holds_null_where_a_metric_is_not_finite(directory):
    path = f"{directory}/records/metrics.json"
    files.write_json(path, {"auc": math.nan, "steps": [1, math.inf], "f1": 0.5})
    assert files.read_json(path) == {"auc": None, "steps": [1, None], "f1": 0.5}


def test_missing_json_is_none(directory):
    assert files.read_json(f"{directory}/absent.json") is None


def test_copy_replaces_an_older_file(directory):
    files.write(f"{directory}/source", b"new")
    files.write(f"{directory}/copies/1", "old")
    files.copy(f"{directory}/source", f"{directory}/copies/1")
    assert tf.io.gfile.GFile(f"{directory}/copies/1").read() == "new"


def test_failed_write_leaves_the_older_file_and_no_other(directory, monkeypatch):
    files.write(f"{directory}/run/record", "old")

    def fail(*_, **__):
        raise tf.errors.UnavailableError(None, None, "503")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(tf.errors.UnavailableError):
        files.write(f"{directory}/run/record", "new")
    assert tf.io.gfile.GFile(f"{directory}/run/record").read() == "old"
    assert tf.io.gfile.listdir(f"{directory}/run") == ["record"]


def test_directory_is_copied_with_all_its_files(directory):
    for name in ("a", "b/c", "b/d/e"):
        files.write(f"{directory}/source/{name}", name)
    files.write(f"{directory}/copy/older", "")
    files.copy_directory(f"{directory}/source", f"{directory}/copy")
    assert files.list_files(f"{directory}/copy") == ["a", "b/c", "b/d/e"]
    assert tf.io.gfile.GFile(f"{directory}/copy/b/d/e").read() == "b/d/e"


def test_records_of_a_directory_are_listed_without_other_files(directory):
    names = ("1.gz", "0.gz", "_locations.jsonl", ".incomplete-2", "beam-temp-a-3/4.gz")
    for name in names:
        files.write(f"{directory}/train/{name}", name)
    records = files.list_records([f"{directory}/train/*", f"{directory}/eval/*"])
    assert records == [f"{directory}/train/0.gz", f"{directory}/train/1.gz"]
    with pytest.raises(files.MissingRecordsError, match=r"matches .*/eval/\*\. If"):
        files.list_records([f"{directory}/eval/*"])


def test_missing_shard_is_refused_unless_the_pattern_leaves_it_out(directory):
    for number in (0, 2):
        files.write(f"{directory}/train/data-0000{number}-of-00003.gz", "")
    files.write(f"{directory}/train/data-0-of-1.gz", "")
    with pytest.raises(files.MissingRecordsError, match=r"data-00001-of-00003\.gz"):
        files.list_records([f"{directory}/train/*"])
    pattern = f"{directory}/train/data-*[02]-of-*3.gz"
    assert len(files.list_records([pattern])) == 2


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["t-1-of-3", "t-2-of-3", "t-3-of-3"], None),
        ([f"t-{n}-of-12" for n in range(12)], None),
        ([f"t-{n}-of-12" for n in range(12) if n != 4], "t-4-of-12"),
        (["t-01-of-03", "t-03-of-03"], "t-02-of-03"),
    ],
)
def test_shards_are_counted_from_0_or_1_with_or_without_zeros(names, missing):
    if missing is None:
        files.refuse_missing_shards(names, ["*"])
        return
    with pytest.raises(files.MissingRecordsError, match=f"^{missing} is missing"):
        files.refuse_missing_shards(names, ["*"])


def test_writes_to_an_object_store_leave_no_directories(bucket, object_store):
    files.write(f"{bucket}/a/b", "c")
    files.make_directory(f"{bucket}/d")
    files.copy(f"{bucket}/a/b", f"{bucket}/e/f")
    assert object_store.keys(bucket) == ["a/b", "e/f"]


def test_markers_of_directories_are_deleted_up_to_the_root(bucket, object_store):
    for key in ("", "run/", "run/task/", "run/task/out/", "run/task/out/file"):
        object_store.write(f"{bucket}/root/{key}")
    files.delete_directory_markers(f"{bucket}/root/run/task", f"{bucket}/root")
    assert object_store.keys(bucket) == ["root/", "root/run/task/out/file"]


def test_directory_of_a_storage_that_does_not_respond_is_not_empty(
    bucket, object_store
):
    files.write(f"{bucket}/run/a/b", "c")
    for look in (files.list_names, files.list_files, files.exists, files.is_directory):
        object_store.fail(bucket, 503, times=None)
        with pytest.raises(tf.errors.OpError, match="503"):
            look(f"{bucket}/run/a")
        object_store.accept_all()
    assert files.list_files(f"{bucket}/run") == ["a/b"]


def test_directory_that_disappears_while_it_is_listed_is_empty(directory, monkeypatch):
    works, was_there = files.is_directory, iter([True])
    monkeypatch.setattr(
        files, "is_directory", lambda path: next(was_there, False) or works(path)
    )
    assert files.list_names(f"{directory}/absent") == set()


def test_file_and_directory_of_one_name_are_both_listed(bucket, object_store):
    for name in ("a", "a/b", "c"):
        object_store.write(f"{bucket}/run/{name}")
    assert files.list_names(f"{bucket}/run") == {"a", "c"}
    assert files.list_directories(f"{bucket}/run") == {"a"}


def test_list_of_a_bucket_has_no_request_for_each_name(bucket, object_store):
    requests = []
    for number in (1, 9):
        for name in range(number):
            object_store.write(f"{bucket}/{number}/{name}.txt")
        object_store.fail(bucket)
        assert len(files.list_files(f"{bucket}/{number}")) == number
        assert files.list_directories(f"{bucket}/{number}") == set()
        requests.append(len(object_store.accept_all()))
    assert requests[0] == requests[1]


@pytest.fixture
def without_pauses(monkeypatch):
    monkeypatch.setattr(files, "_PAUSES", (0,) * 6)


@pytest.mark.usefixtures("without_pauses")
def test_truncated_responses_are_requested_again(bucket, object_store):
    content = b"0123456789" * 100
    object_store.write(f"{bucket}/a", content)
    for times in (1, 2):
        object_store.fail(bucket, "short", times=times, only_reads=True)
        assert files.read(f"{bucket}/a") == content
        object_store.fail(bucket, "short", times=times, only_reads=True)
        files.copy(f"{bucket}/a", f"{bucket}/b")
        assert object_store.read(f"{bucket}/b") == content


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("only_reads", [True, False])
def test_file_of_which_only_a_part_arrives_is_not_read_or_copied(
    bucket, object_store, only_reads
):
    object_store.write(f"{bucket}/a", b"0123456789" * 100)
    for use in (files.read, lambda path: files.copy(path, f"{bucket}/b")):
        object_store.fail(bucket, "short", times=None, only_reads=only_reads)
        with pytest.raises(tf.errors.OpError):
            use(f"{bucket}/a")
        object_store.accept_all()
    assert object_store.keys(bucket) == ["a"]


def test_file_that_another_process_shortens_is_read(bucket, object_store):
    """TensorFlow has cached the size of the longer file, for 5 seconds."""
    files.write(f"{bucket}/a", b"0123456789")
    assert files.read(f"{bucket}/a") == b"0123456789"
    object_store.write(f"{bucket}/a", b"01")
    assert files.read(f"{bucket}/a") == b"01"


def test_file_that_another_process_makes_longer_is_copied(bucket, object_store):
    files.write(f"{bucket}/a", b"01")
    assert files.size(f"{bucket}/a") == 2
    object_store.write(f"{bucket}/a", b"0123456789")
    files.copy(f"{bucket}/a", f"{bucket}/b")
    assert object_store.read(f"{bucket}/b") == b"0123456789"


def test_file_that_is_deleted_after_it_was_read_is_copied(
    bucket, object_store, monkeypatch
):
    copy = tf.io.gfile.copy

    def copy_and_delete(source, destination, **options):
        copy(source, destination, **options)
        tf.io.gfile.remove(source)

    monkeypatch.setattr(tf.io.gfile, "copy", copy_and_delete)
    files.write(f"{bucket}/a", "content")
    files.copy(f"{bucket}/a", f"{bucket}/b")
    assert object_store.keys(bucket) == ["b"]


def test_record_is_read_without_the_number_of_its_format(directory):
    path = f"{directory}/records/record.json"
    files.write_record(path, {"best": None})
    assert files.read_json(path) == {"format": 1, "best": None}
    assert files.read_record(path) == {"best": None}
    assert files.read_record(f"{directory}/absent.json") is None
    files.write_json(path, {"format": 2})
    with pytest.raises(file_format.FormatError, match="format 2"):
        files.read_record(path)


@pytest.mark.parametrize("link", ["version", "version/inside"])
def test_deletion_keeps_what_a_link_points_to(tmp_path, link):
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "file").write_text("kept")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(outside)
    files.delete_directory(str(tmp_path / "version"))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "folder" / "file").read_text() == "kept"
