"""Paths that mean the same on a disk and in an object store."""

import pytest

from contracts.storage import uris
from tests.refusals import refused


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


@pytest.mark.parametrize("name", ["a[1]", "a[b", "a*", "a?b", r"a\b", "[*/b"])
@pytest.mark.parametrize("base", ["/data", "data", "gs://bucket"])
def test_file_pattern_is_refused_with_its_special_characters(base, name):
    special = " ".join(sorted(set(name) & set("[*?\\")))
    got = f"TensorFlow and Beam read {special} in {base}/{name} as a file pattern"
    with refused("E-path-pattern", setting="output", got=got):
        uris.refuse_pattern("output", f"{base}/{name}")


def test_other_characters_are_no_pattern():
    uris.refuse_pattern("output", "/da ta/a]b{SPAN},'\"#%$~ä:=+@!(1)")
