"""Versions in memory as the model's directory changes."""

import asyncio
import dataclasses
import hashlib
import json
import logging
import shutil
import threading

import pytest

from serving import discovery, loaded_versions
from serving.errors import Code, ProcessEndedError, RequestError
from serving.loaded_versions import LoadedVersions, State
from serving.monitoring import Metrics
from tests.refusals import refused

# Each is a `SavedModel` with one graph.
WHOLE, KILLED, BROKEN = (f"\b\1\x12\5{word}" for word in ("whole", "ended", "wrong"))


@dataclasses.dataclass(eq=False)
class Loaded:
    """Stands in for a model."""

    version: int
    is_alive: bool = True

    def close(self):
        self.is_alive = False


@dataclasses.dataclass
class Pushed:
    """A directory of versions, and the loads of its server."""

    root: object
    loads: list = dataclasses.field(default_factory=list)
    go_on: object = dataclasses.field(default_factory=threading.Event)

    def push(self, version, content=WHOLE):
        hidden = self.root / f".{version}.incomplete"
        hidden.mkdir()
        (hidden / "saved_model.pb").write_text(content)
        hidden.rename(self.root / str(version))

    def load(self, path, version):
        self.loads.append(version)
        self.go_on.wait()
        content = (path / "saved_model.pb").read_text()
        if content == KILLED:
            raise ProcessEndedError("the process ended, see the log")
        if content != WHOLE:
            raise ValueError("no model")
        return Loaded(version)

    def serve(self, **settings):
        """Returns the versions before the first load."""
        source = discovery.find_model(self.root)
        return LoadedVersions(source, self.load, Metrics(), **settings)


@pytest.fixture
def pushed(tmp_path):
    """A directory with versions 9 and 10, and other directories."""
    (tmp_path / "sample").mkdir()
    pushed = Pushed(tmp_path / "sample")
    pushed.go_on.set()
    for version in (9, 10):
        pushed.push(version)
    (pushed.root / ".99.incomplete").mkdir()
    (pushed.root / "12").mkdir()  # nothing in it yet
    (pushed.root / "latest").mkdir()
    return pushed


@pytest.fixture
def versions(pushed):
    """Version 10 in memory."""
    return refresh(pushed.serve())


def refresh(versions, times=1):
    """Looks for changes of the directory; returns the versions."""
    for _ in range(times):
        asyncio.run(versions.refresh())
    return versions


def states(versions):
    return {v.number: v.state for v in versions.describe("sample")}


def used(versions, *target, **options):
    """Returns the number of the version that predicts."""
    with versions.use("sample", *target, **options) as model:
        return model.version


def test_only_the_newest_complete_version_is_loaded(pushed):
    versions = pushed.serve()
    assert not versions.is_available
    refresh(versions)
    assert pushed.loads == [10]
    assert states(versions) == {10: State.AVAILABLE}


def test_old_version_is_used_until_the_new_one_is_loaded(pushed, versions):
    async def swap():
        pushed.go_on.clear()
        loading = asyncio.create_task(versions.refresh())
        while pushed.loads != [10, 11]:
            await asyncio.sleep(0.01)
        assert states(versions) == {10: State.AVAILABLE, 11: State.LOADING}
        assert used(versions) == 10
        pushed.go_on.set()
        await loading

    pushed.push(11)
    asyncio.run(swap())
    assert used(versions) == 11
    assert states(versions) == {10: State.END, 11: State.AVAILABLE}


def test_old_version_is_unloaded_after_its_last_request(pushed, versions):
    with versions.use("sample") as model:
        with versions.use("sample"):
            pushed.push(11)
            refresh(versions)
            assert model.version == 10
            assert states(versions)[10] is State.UNLOADING
            with pytest.raises(RequestError, match="sample version 10 is not loaded"):
                used(versions, 10)
        assert states(versions)[10] is State.UNLOADING
    assert states(versions)[10] is State.END


def test_old_version_stays_if_the_new_one_cannot_be_loaded(pushed, versions, caplog):
    caplog.set_level(logging.WARNING, "serving")
    pushed.push(11, BROKEN)
    refresh(versions, times=3)
    assert pushed.loads == [10, 11]  # and is not tried again and again
    broken, serving = versions.describe("sample")
    # Clients do not see the error itself, which may name files of this machine.
    assert broken.state is State.END
    assert broken.error == "ValueError: the version cannot be loaded, see the log"
    assert serving.state is State.AVAILABLE
    assert f"cannot load {pushed.root / '11'}: ValueError: no model" in caplog.text


def test_version_whose_files_were_repaired_is_loaded(pushed):
    pushed.push(11, BROKEN)
    versions = refresh(pushed.serve())
    assert states(versions) == {11: State.END, 10: State.AVAILABLE}
    (pushed.root / "11" / "saved_model.pb").write_text(WHOLE)
    assert states(refresh(versions)) == {11: State.AVAILABLE, 10: State.END}


def list_files(directory):
    """Returns the content of a manifest, as the pusher writes it."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        "files": {
            str(path.relative_to(directory)): {
                "size": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in files
        }
    }


def test_version_whose_files_changed_after_the_push_is_refused(
    pushed, versions, caplog
):
    pushed.push(11)
    weights, manifest = (pushed.root / "11" / n for n in ("weights", "manifest.json"))
    weights.write_text(WHOLE)
    manifest.write_text(json.dumps(list_files(weights.parent)))
    weights.write_text(BROKEN)  # of the same size
    refresh(versions, times=3)
    assert states(versions) == {11: State.END, 10: State.AVAILABLE}
    weights.write_text(WHOLE)
    assert states(refresh(versions)) == {11: State.AVAILABLE, 10: State.END}
    assert pushed.loads == [10, 11]  # the damaged files were not loaded
    damage = "weights differs from the file that was pushed; restore the file, or "
    assert caplog.text.count(damage) == 1
    sample = versions._metrics.registry.get_sample_value
    assert sample("serving_loads_total", {"result": "error"}) == 1


def test_copied_version_is_served_and_reported_as_unchecked(pushed, caplog):
    refresh(pushed.serve())
    unchecked = f"{pushed.root}/10 has no manifest.json, so its files are not checked"
    assert caplog.text.count(unchecked) == 1


def test_version_is_loaded_once_all_files_of_its_manifest_exist(
    pushed, versions, caplog
):
    caplog.set_level(logging.WARNING, "serving")
    pushed.push(11)
    weights, manifest = (pushed.root / "11" / n for n in ("weights", "manifest.json"))
    weights.write_text(WHOLE)
    content = json.dumps(list_files(weights.parent))
    weights.unlink()
    for written in (content[:20], content):
        manifest.write_text(written)
        refresh(versions)
    weights.write_text("who")
    refresh(versions, times=3)
    assert pushed.loads == [10]
    weights.write_text(WHOLE)
    assert states(refresh(versions)) == {10: State.END, 11: State.AVAILABLE}
    assert caplog.text.count(f"{pushed.root}/11 is incomplete and not loaded yet") == 3
    assert "weights has 3 bytes, not 9" in caplog.text


def test_unreadable_manifest_does_not_stop_other_versions(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")
    for version in (11, 12, 13):
        shutil.copytree(pushed.root / "10", pushed.root / str(version), dirs_exist_ok=1)
    manifest = pushed.root / "12" / "manifest.json"
    manifest.mkdir()  # which cannot be read, even by root
    versions = refresh(pushed.serve(keep=2), times=3)
    assert states(versions) == {11: State.AVAILABLE, 13: State.AVAILABLE}
    assert caplog.text.count(f"{manifest}: Is a directory") == 1


def test_manifest_of_a_loaded_version_is_not_read_again(pushed, versions, caplog):
    caplog.set_level(logging.WARNING, "serving")
    (pushed.root / "10" / "manifest.json").write_text("broken")
    assert states(refresh(versions)) == {10: State.AVAILABLE}
    assert "10 is incomplete" not in caplog.text


def test_version_is_loaded_once_its_push_has_ended(pushed):
    versions = pushed.serve()
    (pushed.root / ".11.incomplete").mkdir()
    shutil.copytree(pushed.root / "10", pushed.root / "11")
    assert states(refresh(versions)) == {10: State.AVAILABLE}
    (pushed.root / ".11.incomplete").rmdir()
    assert states(refresh(versions)) == {10: State.END, 11: State.AVAILABLE}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("sample/9", "sample/10", {9: State.END, 10: State.AVAILABLE}),
        ("sample/10", "sample/9", {10: State.END, 9: State.AVAILABLE}),
        ("blue", "green", {1: State.END, 2: State.AVAILABLE}),
        ("sample", "other", {10: State.END, 11: State.AVAILABLE}),
    ],
)
def test_link_that_points_elsewhere_is_followed(pushed, before, after, expected):
    for name in ("blue", "green", "other/11"):
        shutil.copytree(pushed.root / "9", pushed.root.parent / name)
    link = pushed.root.parent / "current"
    link.symlink_to(pushed.root.parent / before)
    source = discovery.find_model(link, "sample")
    versions = refresh(LoadedVersions(source, pushed.load, Metrics()))
    link.unlink()
    refresh(versions)
    link.symlink_to(pushed.root.parent / after)
    assert states(refresh(versions)) == expected


def test_previous_version_is_loaded_if_the_newest_is_deleted(pushed, versions):
    shutil.rmtree(pushed.root / "10")
    assert states(refresh(versions)) == {9: State.AVAILABLE, 10: State.END}


def test_only_version_stays_if_its_directory_is_deleted(pushed, versions, caplog):
    caplog.set_level(logging.WARNING, "serving")
    shutil.rmtree(pushed.root)
    assert states(refresh(versions, times=3)) == {10: State.AVAILABLE}
    assert caplog.text.count("version 10 stays in memory") == 1


def test_several_versions_can_stay_loaded(pushed):
    versions = refresh(pushed.serve(keep=2))
    assert used(versions, 9) == 9
    pushed.push(11)
    loaded = {10: State.AVAILABLE, 11: State.AVAILABLE}
    assert states(refresh(versions)) == {9: State.END, **loaded}


def test_version_with_a_label_stays_and_is_used_by_it(pushed):
    versions = refresh(pushed.serve(labels={"stable": 9}))
    pushed.push(11)
    refresh(versions)
    assert used(versions, label="stable") == 9
    assert used(versions) == 11
    (version,) = versions.describe("sample", label="stable")
    assert version.number == 9


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (("other",), "NOT_FOUND", "other is not loaded; this server has sample"),
        (("sample", 9), "NOT_FOUND", "model sample version 9 is not loaded"),
        (("sample", None, "x"), "INVALID_ARGUMENT", "version_label: x; allowed: "),
    ],
)
def test_version_that_is_not_loaded_is_refused(versions, target, code, message):
    with pytest.raises(RequestError, match=message) as error, versions.use(*target):
        pass
    assert error.value.code is Code[code]


def test_model_is_named_after_its_directory(pushed):
    single = pushed.root.parent / "single"
    shutil.copytree(pushed.root / "9", single)
    named = [
        discovery.find_model(path) for path in (pushed.root, pushed.root / "9", single)
    ]
    assert [source.name for source in named] == ["sample", "sample", "single"]
    scanned = [sorted(source.scan()) for source in named]
    assert scanned == [[9, 10], [9], [1]]
    assert discovery.find_model(single, "mine").name == "mine"


def test_directory_without_a_model_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with refused("E-model-not-found", setting="model"):
            discovery.find_model(path)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves, as a list of the seconds."""
    now = [1000.0]
    monkeypatch.setattr(loaded_versions.time, "monotonic", lambda: now[0])
    return now


def kill(versions):
    with versions.use("sample", 10) as model:
        model.is_alive = False


def test_version_whose_process_ended_is_loaded_again_at_once(pushed, clock, versions):
    clock[0] += 3600
    kill(versions)
    with pytest.raises(RequestError, match="is loaded again") as error:
        used(versions)
    assert error.value.code is Code.UNAVAILABLE
    assert states(refresh(versions)) == {10: State.AVAILABLE}
    assert pushed.loads == [10, 10]


def test_version_whose_process_ends_again_and_again_is_loaded_less_often(
    clock, versions
):
    loads = []
    for _ in range(100):
        if 10 in {v.number for v in versions.describe("sample") if v.model}:
            loads.append(clock[0])
            kill(versions)
        refresh(versions)
        clock[0] += 1
    # It ends a second after each load, and is loaded 0, 1, 2, 4, ... seconds later.
    assert [round(time - loads[0]) for time in loads] == [0, 1, 3, 6, 11, 20, 37, 70]
    assert used(versions) == 9  # the next older version serves meanwhile


def test_version_whose_process_was_killed_while_it_loaded_is_loaded_again(
    pushed, clock
):
    pushed.push(11, KILLED)
    versions = refresh(pushed.serve())
    assert states(versions) == {11: State.END, 10: State.AVAILABLE}
    clock[0] += 60
    refresh(versions)
    assert pushed.loads == [11, 10, 11]
