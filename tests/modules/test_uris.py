"""Paths that mean the same on a disk and in an object store."""

import pytest

from modules import uris


@pytest.mark.parametrize("directory", ["gs://b", "gs://b/", "gs://b/a", "/a", "a"])
def test_joined_paths_have_no_part_that_an_object_store_would_keep(directory):
    base = directory.rstrip("/")
    assert uris.join(directory, "b") == f"{base}/b"
    assert uris.join(directory, "./b/", "c//d", ".") == f"{base}/b/c/d"
    assert uris.join(directory, ".") == base


def test_path_that_leads_out_of_its_directory_is_refused():
    with pytest.raises(ValueError, match=r"'a/\.\./\.\.' is not below gs://b"):
        uris.join("gs://b", "a/../..")
    with pytest.raises(ValueError, match="is not below"):
        uris.join("gs://b", "/a")
    assert uris.join("/", "a") == "/a"
