"""Paths that mean the same on a disk and in an object store."""

import pytest

from contracts.errors import UsageError
from contracts.storage import uris


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
    with pytest.raises(UsageError, match=r"read .* in a path as a file") as error:
        uris.refuse_pattern("output", f"{base}/{name}")
    assert str(error.value).startswith(f"output {base}/{name}: ")
    shown = str(error.value).partition("Beam read ")[2].partition(" in a")[0]
    assert set(shown.split()) == set(name) & set("[*?\\")


def test_other_characters_are_no_pattern():
    uris.refuse_pattern("output", "/da ta/a]b{SPAN},'\"#%$~ä:=+@!(1)")
