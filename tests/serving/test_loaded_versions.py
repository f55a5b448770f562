"""Versions in memory as the model's directory changes."""

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import shutil
import threading

import grpc
import pytest

from serving import discovery, loaded_versions
from serving.errors import ProcessEndedError, RequestError
from serving.loaded_versions import LoadedVersions, State
from serving.monitoring import Metrics
from tests.refusals import refused


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

    def push(self, version, content="whole"):
        hidden = self.root / f".{version}.incomplete"
        hidden.mkdir()
        (hidden / "saved_model.pb").write_text(content)
        hidden.rename(self.root / str(version))

    def load(self, path, version):
        self.loads.append(version)
        self.go_on.wait()
        content = (path / "saved_model.pb").read_text()
        if content == "killed":
            raise ProcessEndedError("the process ended, see the log")
        if content != "whole":
            raise ValueError("no model")
        return Loaded(version)

    def serve(self, **settings):
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


def states(versions):
    return {v.number: v.state for v in versions.describe("sample")}


def test_only_the_newest_complete_version_is_loaded(pushed):
    versions = pushed.serve()
    assert not versions.is_available
    asyncio.run(versions.refresh())
    assert pushed.loads == [10]
    assert states(versions) == {10: State.AVAILABLE}


def test_old_version_is_used_until_the_new_one_is_loaded(pushed):
    async def swap():
        versions = pushed.serve()
        await versions.refresh()
        pushed.push(11)
        pushed.go_on.clear()
        loading = asyncio.create_task(versions.refresh())
        while pushed.loads != [10, 11]:
            await asyncio.sleep(0.01)
        during = states(versions)
        with versions.use("sample") as model:
            assert model.version == 10
        pushed.go_on.set()
        await loading
        with versions.use("sample") as model:
            assert model.version == 11
        return during, states(versions)

    during, after = asyncio.run(swap())
    assert during == {10: State.AVAILABLE, 11: State.LOADING}
    assert after == {10: State.END, 11: State.AVAILABLE}


def test_old_version_is_unloaded_after_its_last_request(pushed):
    async def swap():
        versions = pushed.serve()
        await versions.refresh()
        with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
            used = first.enter_context(versions.use("sample"))
            second.enter_context(versions.use("sample"))
            pushed.push(11)
            await versions.refresh()
            assert used.version == 10
            assert states(versions)[10] is State.UNLOADING
            with pytest.raises(
                RequestError, match="model sample version 10 is not loaded"
            ):
                first.enter_context(versions.use("sample", 10))
            second.close()
            assert states(versions)[10] is State.UNLOADING
        return states(versions)[10]

    assert asyncio.run(swap()) is State.END


def test_old_version_stays_if_the_new_one_cannot_be_loaded(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")

    async def swap():
        versions = pushed.serve()
        await versions.refresh()
        pushed.push(11, "broken")
        for _ in range(3):
            await versions.refresh()
        return versions

    versions = asyncio.run(swap())
    assert pushed.loads == [10, 11]  # and is not tried again and again
    broken, serving = versions.describe("sample")
    # Clients do not see the error itself, which may name files of this machine.
    assert broken.state is State.END
    assert broken.error == "ValueError: the version cannot be loaded, see the log"
    assert serving.state is State.AVAILABLE
    assert f"cannot load {pushed.root / '11'}: ValueError: no model" in caplog.text


def test_version_whose_files_were_repaired_is_loaded(pushed):
    async def repair():
        pushed.push(11, "broken")
        versions = pushed.serve()
        await versions.refresh()
        assert states(versions) == {11: State.END, 10: State.AVAILABLE}
        (pushed.root / "11" / "saved_model.pb").write_text("whole")
        await versions.refresh()
        return states(versions)

    assert asyncio.run(repair()) == {11: State.AVAILABLE, 10: State.END}


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


def change_a_byte(pushed, version):
    """Changes a file of a version after its push, and keeps the size."""
    pushed.push(version)
    directory = pushed.root / str(version)
    (directory / "variables").write_text("weights")
    (directory / "manifest.json").write_text(json.dumps(list_files(directory)))
    (directory / "variables").write_text("weighty")


def test_version_whose_files_changed_after_the_push_is_refused(pushed, caplog):
    caplog.set_level(logging.WARNING)

    async def swap():
        versions = pushed.serve()
        await versions.refresh()
        change_a_byte(pushed, 11)
        for _ in range(3):
            await versions.refresh()
        before = states(versions)
        (pushed.root / "11" / "variables").write_text("weights")
        await versions.refresh()
        return before, states(versions), versions

    before, repaired, versions = asyncio.run(swap())
    assert before == {11: State.END, 10: State.AVAILABLE}
    assert repaired == {11: State.AVAILABLE, 10: State.END}
    assert pushed.loads == [10, 11]  # the damaged files were not loaded
    damage = "variables differs from the file that was pushed. Restore the file, or "
    assert caplog.text.count(damage) == 1
    sample = versions._metrics.registry.get_sample_value
    assert sample("serving_loads_total", {"result": "error"}) == 1


def test_copied_version_is_served_and_reported_as_unchecked(pushed, caplog):
    caplog.set_level(logging.WARNING)
    asyncio.run(pushed.serve().refresh())
    unchecked = f"{pushed.root}/10 has no manifest.json, so its files are not checked"
    assert caplog.text.count(unchecked) == 1


def test_version_is_loaded_once_all_files_of_its_manifest_exist(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")

    async def push():
        versions = pushed.serve()
        await versions.refresh()
        pushed.push(11)
        variables = pushed.root / "11" / "variables" / "data"
        variables.parent.mkdir()
        variables.write_text("weights")
        manifest = json.dumps(list_files(pushed.root / "11"))
        variables.unlink()
        for content in (manifest[:20], manifest):
            (pushed.root / "11" / "manifest.json").write_text(content)
            await versions.refresh()
        variables.write_text("weig")
        for _ in range(3):
            await versions.refresh()
        assert pushed.loads == [10]
        variables.write_text("weights")
        await versions.refresh()
        return states(versions)

    assert asyncio.run(push()) == {10: State.END, 11: State.AVAILABLE}
    assert caplog.text.count(f"{pushed.root}/11 is incomplete and not loaded yet") == 3
    assert "variables/data has 4 bytes, not 7" in caplog.text


def test_unreadable_manifest_does_not_stop_other_versions(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")
    for version in (11, 12, 13):
        shutil.copytree(pushed.root / "10", pushed.root / str(version), dirs_exist_ok=1)
    manifest = pushed.root / "12" / "manifest.json"
    manifest.mkdir()  # which cannot be read, even by root

    async def push():
        versions = pushed.serve(keep=2)
        for _ in range(3):
            await versions.refresh()
        return states(versions)

    assert asyncio.run(push()) == {11: State.AVAILABLE, 13: State.AVAILABLE}
    assert caplog.text.count(f"{manifest}: Is a directory") == 1


def test_manifest_of_a_loaded_version_is_not_read_again(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")

    async def serve():
        versions = pushed.serve()
        await versions.refresh()
        (pushed.root / "10" / "manifest.json").write_text("broken")
        await versions.refresh()
        return states(versions)

    assert asyncio.run(serve()) == {10: State.AVAILABLE}
    assert "10 is incomplete" not in caplog.text


def test_version_is_loaded_once_its_push_has_ended(pushed):
    async def push():
        versions = pushed.serve()
        (pushed.root / ".11.incomplete").mkdir()
        shutil.copytree(pushed.root / "10", pushed.root / "11")
        await versions.refresh()
        assert states(versions) == {10: State.AVAILABLE}
        (pushed.root / ".11.incomplete").rmdir()
        await versions.refresh()
        return states(versions)

    assert asyncio.run(push()) == {10: State.END, 11: State.AVAILABLE}


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

    async def switch():
        source = discovery.find_model(link, "sample")
        versions = LoadedVersions(source, pushed.load, Metrics())
        await versions.refresh()
        link.unlink()
        await versions.refresh()
        link.symlink_to(pushed.root.parent / after)
        await versions.refresh()
        return states(versions)

    assert asyncio.run(switch()) == expected


def test_previous_version_is_loaded_if_the_newest_is_deleted(pushed):
    async def roll_back():
        versions = pushed.serve()
        await versions.refresh()
        shutil.rmtree(pushed.root / "10")
        await versions.refresh()
        return states(versions)

    assert asyncio.run(roll_back()) == {9: State.AVAILABLE, 10: State.END}


def test_only_version_stays_if_its_directory_is_deleted(pushed, caplog):
    caplog.set_level(logging.WARNING, "serving")

    async def lose():
        versions = pushed.serve()
        await versions.refresh()
        shutil.rmtree(pushed.root)
        for _ in range(3):
            await versions.refresh()
        return states(versions)

    assert asyncio.run(lose()) == {10: State.AVAILABLE}
    assert caplog.text.count("version 10 stays in memory") == 1


def test_several_versions_can_stay_loaded(pushed):
    async def push():
        versions = pushed.serve(keep=2)
        await versions.refresh()
        with versions.use("sample", 9) as model:
            assert model.version == 9
        pushed.push(11)
        await versions.refresh()
        return states(versions)

    assert asyncio.run(push()) == {
        9: State.END,
        10: State.AVAILABLE,
        11: State.AVAILABLE,
    }


def test_version_with_a_label_stays_and_is_used_by_it(pushed):
    async def push():
        versions = pushed.serve(labels={"stable": 9})
        await versions.refresh()
        pushed.push(11)
        await versions.refresh()
        with versions.use("sample", label="stable") as model:
            assert model.version == 9
        with versions.use("sample") as model:
            assert model.version == 11
        return [v.number for v in versions.describe("sample", label="stable")]

    assert asyncio.run(push()) == [9]


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (("other",), "NOT_FOUND", "model other is not loaded"),
        (("sample", 9), "NOT_FOUND", "model sample version 9 is not loaded"),
        (("sample", None, "x"), "INVALID_ARGUMENT", "version_label: x; allowed: "),
    ],
)
def test_version_that_is_not_loaded_is_refused(pushed, target, code, message):
    versions = pushed.serve()
    asyncio.run(versions.refresh())
    with pytest.raises(RequestError) as error, versions.use(*target):
        pass
    assert error.value.code is grpc.StatusCode[code]
    assert message in str(error.value)


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
    with versions.use("sample") as model:
        model.is_alive = False


def test_version_whose_process_ended_is_loaded_again_at_once(pushed, clock):
    versions = pushed.serve()
    asyncio.run(versions.refresh())
    clock[0] += 3600
    kill(versions)
    with pytest.raises(RequestError, match="is loaded again") as error:
        versions.use("sample").__enter__()
    assert error.value.code is grpc.StatusCode.UNAVAILABLE
    asyncio.run(versions.refresh())
    assert pushed.loads == [10, 10]
    assert states(versions) == {10: State.AVAILABLE}


def test_version_whose_process_ends_again_and_again_is_loaded_less_often(pushed, clock):
    versions = pushed.serve()
    asyncio.run(versions.refresh())
    loads = []
    for _ in range(100):
        if 10 in {v.number for v in versions.describe("sample") if v.model}:
            loads.append(clock[0])
            with versions.use("sample", 10) as model:
                model.is_alive = False
        asyncio.run(versions.refresh())
        clock[0] += 1
    # It ends a second after each load, and is loaded 0, 1, 2, 4, ... seconds later.
    assert [round(time - loads[0]) for time in loads] == [0, 1, 3, 6, 11, 20, 37, 70]
    # The next older version serves meanwhile.
    with versions.use("sample") as model:
        assert model.version == 9


def test_version_whose_process_was_killed_while_it_loaded_is_loaded_again(
    pushed, clock
):
    pushed.push(11, "killed")
    versions = pushed.serve()
    asyncio.run(versions.refresh())
    assert states(versions) == {11: State.END, 10: State.AVAILABLE}
    clock[0] += 60
    asyncio.run(versions.refresh())
    assert pushed.loads == [11, 10, 11]
