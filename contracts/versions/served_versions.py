"""The versions of a model in a directory, in the layout of TensorFlow Serving.

    DIRECTORY/
      1795571468258/                   a version: a SavedModel, and of a push also
        manifest.json                    size and SHA-256 of each of its files
        README.md                        its card
        evaluation.json                  its metrics at the gate, and its data
        assets.extra/architecture.json   what the model predicts, and its encoder
        assets.extra/examples.json       rows for people to try it with
        onnx/                            the model for ONNX Runtime, with a manifest
      .1795574731049.incomplete/       a push that is running or was killed
      .withdrawn/1795570000000/        a version that was rolled back

`find_problem` decides which versions are complete; incomplete ones are skipped. A push
copies the model under a temporary name, adds the manifest, and renames. Object stores
rename object by object, so both the temporary directory and the manifest are checked. A
SavedModel that was copied by hand has neither of them: its variables are checked.
`verify` also compares the contents of the files, before a version is loaded, or checks
that a graph without a manifest is a whole message.

Readers of SavedModels need `saved_model.pb`; the runtime needs `model.json`, in the
version or in its `onnx/`. The functions get the name of this main file.

Directories are local or remote. Reading local ones does not import TensorFlow.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.verdicts import SERVING_EXAMPLES_FILE
from contracts.versions import exported_model
from contracts.versions.exported_model import (
    EXTRA_ASSETS,
    GRAPH_FILE,
    PORTABLE_DIRECTORY,
    PORTABLE_FILE,
    VARIABLES,
)

logger = logging.getLogger(__name__)

MANIFEST_FILE = "manifest.json"
# Directory of the versions that were rolled back, next to those that are served.
WITHDRAWN = ".withdrawn"
CARD_FILE = "README.md"  # as Hugging Face names it
EVALUATION_FILE = "evaluation.json"
# A predict request with rows for people to try the model with.
EXAMPLES_FILE = f"{EXTRA_ASSETS}/examples.json"

# Where to find a portable folder, for errors.
PORTABLE_ADVICE = (
    "give a folder of `bert-pipeline export --format onnx`, or the directory that a "
    "run with `serving.portable` pushes to"
)

_ABANDONED_SECONDS = 3600
_INCOMPLETE = re.compile(r"\.([0-9]+)\.incomplete")
_MILLISECONDS = 1000
_OLDEST_PUSH = 1_600_000_000_000  # 2020, in milliseconds; smaller numbers are no times
_HIGHEST = 2**63 - 1  # TensorFlow Serving has versions of 64 bits
_SHARD = re.compile(VARIABLES + r"\.data-[0-9]{5}-of-([0-9]{5})")
# The fields of a serialized `SavedModel`: key, and value or length of the value.
_FIELD = re.compile(rb"([\x08\x12])([\x80-\xff]{0,9}[\x00-\x7f])", re.DOTALL)
_GRAPH_KEY = b"\x12"
# Ops of variables, of TensorFlow 2 and 1, as `saved_model.pb` spells them.
_VARIABLE_OPS = (b"VarHandleOp", b"VariableV2")


class VersionError(UsageError):
    """A version is missing, or its files differ from those that were pushed."""


def is_version(name: str) -> bool:
    """Returns whether a directory's name is the number of a version."""
    return _is_number(name) and int(name) <= _HIGHEST


def is_model(path: str, main_file: str = GRAPH_FILE) -> bool:
    """Returns whether a directory is a model.

    Args:
      path: The directory, or a version.
      main_file: `GRAPH_FILE` for SavedModels, `PORTABLE_FILE` for exported folders.
    """
    model = model_directory(path, main_file)
    return files.size(uris.join(model, main_file)) is not None


def model_directory(path: str, main_file: str = GRAPH_FILE) -> str:
    """Returns the directory of a version's model: the version, or its `onnx/`.

    Args:
      path: The version.
      main_file: See `is_model`.
    """
    if main_file != PORTABLE_FILE or files.exists(uris.join(path, main_file)):
        return path
    return uris.join(path, PORTABLE_DIRECTORY)


def refuse_other_kind(directory: str, main_file: str) -> None:
    """Refuses models that only the other command can read.

    Args:
      directory: A model, or a directory of versions.
      main_file: See `is_model`.

    Raises:
      VersionError: All models in it are of the other kind.
    """
    other = GRAPH_FILE if main_file == PORTABLE_FILE else PORTABLE_FILE
    versions = [uris.join(directory, name) for name in list_versions(directory)]
    paths = [directory, *versions]
    if any(is_model(path, main_file) for path in paths):
        return
    path = next((path for path in paths if is_model(path, other)), None)
    if path is None:
        return
    if other == GRAPH_FILE:
        got = f"{path} is a SavedModel"
        advice = "export it with `bert-pipeline export --format onnx`"
    else:
        got = f"{path} is for bert-runtime"
        advice = "give the directory of a SavedModel, or use bert-runtime"
    raise VersionError("model", got, advice=advice, name="E-model-not-found")


def find_problem(path: str, main_file: str = GRAPH_FILE) -> str:
    """Returns why a version is incomplete; empty if it is complete.

    A complete version is a model that no push is writing or has left behind. If it has
    a manifest, all files in it exist and have the listed sizes; otherwise all files of
    a SavedModel's variables exist. Its number has 64 bits, and no shorter name next to
    it.

    Args:
      path: The version.
      main_file: See `is_model`.

    Raises:
      FormatError: The manifest has a format that this release does not know.
    """
    directory, name = os.path.split(path.rstrip("/"))
    try:
        if _is_number(name):
            if int(name) > _HIGHEST:
                return f"the highest version is {_HIGHEST}"
            if shorter := _find_shorter(directory, name, main_file):
                return f"{shorter} has the same number, and the shortest name counts"
        if files.exists(uris.join(directory, _incomplete_name(name))):
            return f"{_incomplete_name(name)} is still next to it"
        if not is_model(path, main_file):
            of_pushed = main_file == PORTABLE_FILE and is_model(path)
            folder = f"{PORTABLE_DIRECTORY}/" if of_pushed else ""
            return f"{folder}{main_file} is missing"
        model = model_directory(path, main_file)
        manifest = read_manifest(model)
        if not manifest:
            if main_file == GRAPH_FILE:
                return _find_missing_variables(path)
            return f"{MANIFEST_FILE} is missing"  # it is written last
        return _find_damage(model, manifest, compare_hashes=False)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except files.FormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{MANIFEST_FILE} lists no files with sizes ({type(error).__name__})"


def list_versions(directory: str) -> list[str]:
    """Returns the names of the numbered directories, the highest number first.

    They need not be complete. If a number has several names, the shortest comes first.
    """
    names = [
        name
        for name in filter(_is_number, files.list_names(directory))
        # In an object store a file costs no request: it has no `saved_model.pb` below.
        if not uris.is_local(directory) or Path(directory, name).is_dir()
    ]
    return sorted(names, key=lambda name: (-int(name), len(name)))


def list_complete(directory: str, main_file: str = GRAPH_FILE) -> Iterator[str]:
    """Yields the names of the complete versions, the newest first; logs the others.

    Versions are checked lazily: on an object store a check costs a request per file.
    """
    for name in list_versions(directory):
        path = uris.join(directory, name)
        problem = find_problem(path, main_file)
        if problem:
            logger.warning("%s is incomplete and is skipped: %s", path, problem)
        else:
            yield name


def push_time(path: str, main_file: str = GRAPH_FILE) -> float:
    """Returns when a local version was pushed, in Unix seconds.

    A version that `push` numbered has the time as its number, which a copy keeps. For
    others it is the time at which the main file was last changed.
    """
    numbered = numbered_time(os.path.basename(path.rstrip("/")))
    if numbered is not None:
        return numbered
    return os.stat(uris.join(model_directory(path, main_file), main_file)).st_mtime


def numbered_time(name: str) -> float | None:
    """Returns the time that a version has as its number, in Unix seconds, or None."""
    if is_version(name) and _OLDEST_PUSH <= int(name) <= time.time() * _MILLISECONDS:
        return int(name) / _MILLISECONDS
    return None


def find_newest(directory: str, *, excluded: str = "") -> str:
    """Returns the newest complete version; empty if no version is complete."""
    return next(list_others(directory, excluded), "")


def list_others(directory: str, excluded: str) -> Iterator[str]:
    """Yields the names of the complete versions of other models, the newest first.

    Args:
      directory: Contains the versions.
      excluded: `exported_model.identity` of a model whose copies are skipped; empty
        skips nothing.
    """
    for version in list_complete(directory):
        path = uris.join(directory, version)
        if not excluded or exported_model.identity(path) != excluded:
            yield version


def choose_version(directory: str, model: str) -> str:
    """Returns the version to push a model as.

    Returns:
      The newest version if it is a copy of the model. Otherwise the time in
      milliseconds, but at least the highest number so far plus one. Seconds would be
      too coarse: they could repeat the number of a version that was just deleted.

    Raises:
      VersionError: No number is left.
    """
    newest = find_newest(directory)
    if newest and is_same_model(model, uris.join(directory, newest)):
        return newest
    names = files.list_names(directory)
    names |= files.list_names(uris.join(directory, WITHDRAWN))
    # Including files and incomplete versions, which a new version would replace.
    names |= {match[1] for match in map(_INCOMPLETE.fullmatch, names) if match}
    highest = max(map(int, filter(is_version, names)), default=0)
    if highest == _HIGHEST:
        raise VersionError(
            directory,
            f"it has the highest version that a model server loads, {_HIGHEST}",
            advice="delete or rename it",
            name="E-model-damaged",
        )
    return str(max(int(time.time() * _MILLISECONDS), highest + 1))


def find_withdrawn(directory: str, model: str) -> str:
    """Returns the version under which a model was rolled back; empty if it was not.

    Args:
      directory: Contains the versions. If the newest is a copy of the model, the model
        is served, and not rolled back.
      model: Directory of a SavedModel.
    """
    newest = find_newest(directory)
    if newest and is_same_model(model, uris.join(directory, newest)):
        return ""
    withdrawn = uris.join(directory, WITHDRAWN)
    for version in list_complete(withdrawn):
        if is_same_model(model, uris.join(withdrawn, version)):
            return version
    return ""


def is_same_model(model: str, other: str) -> bool:
    """Returns whether two directories contain copies of one SavedModel."""
    identity = exported_model.identity(model)
    return bool(identity) and identity == exported_model.identity(other)


def read_manifest(path: str) -> dict[str, dict[str, Any]]:
    """Returns `size` and `sha256` of a version's files by relative path.

    It is empty for a SavedModel that was copied by hand, which has no manifest.
    """
    content = files.read_record(uris.join(path, MANIFEST_FILE))
    return {} if content is None else content["files"]


def write_manifest(directory: str) -> None:
    """Writes the manifest of a directory's files, without hidden ones such as locks."""
    manifest = {
        name: _describe_file(uris.join(directory, name))
        for name in files.list_files(directory)
        if not name.startswith(".")
    }
    files.write_record(uris.join(directory, MANIFEST_FILE), {"files": manifest})


def read_commits(path: str) -> dict[str, Any] | None:
    """Returns what a version was pushed with as `commits`; None if with nothing."""
    content = files.read_record(uris.join(path, MANIFEST_FILE))
    return None if content is None else content.get("commits")


def push(
    model: str,
    directory: str,
    version: str,
    *,
    blessing: str | None = None,
    commits: Mapping[str, Any] | None = None,
) -> None:
    """Copies a model into a directory as a version, completely or not at all.

    Leftovers of killed pushes are deleted first. Does nothing if the version is already
    complete.

    Args:
      model: Directory of a SavedModel.
      directory: Contains the versions.
      version: The number of the new version.
      blessing: Directory of the `InfraBlessing`, whose examples and portable folder
        become files of the version; None without one.
      commits: The `contracts.commits.Commits` of the run, which the manifest names.

    Raises:
      VersionError: The copy differs from the model. No version appears.
    """
    for name in files.list_names(directory):
        match = _INCOMPLETE.fullmatch(name)
        if match is None or not _is_abandoned(int(match[1]), directory, int(version)):
            continue
        # The version first: without its temporary directory it would look complete.
        for leftover in (match[1], name):
            files.delete_directory(uris.join(directory, leftover))
    destination = uris.join(directory, version)
    incomplete = uris.join(directory, _incomplete_name(version))
    if files.exists(destination):
        if not find_problem(destination):
            # The push that completed it may not have reached the disk.
            files.sync_directory(destination)
            files.sync(directory)
            return
        # If it were deleted in place, a killed push could leave it without the
        # manifest, as a complete version that was copied by hand.
        files.rename(destination, incomplete)
    manifest = {
        name: _describe_file(uris.join(model, name))
        for name in files.list_files(model)
        if name != MANIFEST_FILE
    }
    files.copy_directory(model, incomplete)
    damage = _find_damage(incomplete, manifest, compare_hashes=True)
    if damage:
        raise VersionError(
            incomplete,
            f"a damaged copy of the model {model}: {damage}",
            advice="check the storage and run the pipeline again",
            name="E-storage-failed",
        )
    if blessing:
        examples = uris.join(blessing, SERVING_EXAMPLES_FILE)
        if files.size(examples) is not None:
            files.copy(examples, uris.join(incomplete, EXAMPLES_FILE))
        portable = uris.join(blessing, PORTABLE_DIRECTORY)
        if files.is_directory(portable):
            files.copy_directory(portable, uris.join(incomplete, PORTABLE_DIRECTORY))
        for name in files.list_files(incomplete):
            if name not in manifest:
                manifest[name] = _describe_file(uris.join(incomplete, name))
    path = uris.join(incomplete, MANIFEST_FILE)
    content = {"files": manifest, **({"commits": commits} if commits else {})}
    files.write_record(path, content)
    _share(incomplete, directory)
    files.sync_directory(incomplete)
    # Nothing is at the destination. On an object store, TensorFlow's cache may still
    # list what was deleted there in the last 5 seconds.
    files.rename(incomplete, destination)
    files.sync(directory)


def replace_examples(version: str, content: bytes) -> None:
    """Replaces the examples of a version, which is complete at any time.

    While they are replaced, the manifest does not list them.

    Args:
      version: The version.
      content: The new examples.

    Raises:
      FileNotFoundError: The version was moved or deleted.
    """
    path = uris.join(version, EXAMPLES_FILE)
    manifest = files.read_record(uris.join(version, MANIFEST_FILE))
    if manifest is not None and manifest["files"].pop(EXAMPLES_FILE, None):
        _replace_manifest(version, manifest)
    files.write(path, content, create_directory=False)
    if manifest is not None:
        manifest["files"][EXAMPLES_FILE] = _describe_file(path)
        _replace_manifest(version, manifest)


def _replace_manifest(version: str, manifest: Mapping[str, Any]) -> None:
    content = json.dumps(files.with_format(manifest), indent=1)
    path = uris.join(version, MANIFEST_FILE)
    files.write(path, content, create_directory=False)


def lacks_examples(path: str) -> bool:
    """Returns whether a file is the examples of a version, but is not in its manifest.

    A killed process leaves them so; see `replace_examples`.
    """
    if not path.endswith(f"/{EXAMPLES_FILE}"):
        return False
    manifest = read_manifest(path.removesuffix(f"/{EXAMPLES_FILE}"))
    return bool(manifest) and EXAMPLES_FILE not in manifest


def copy(version: str, destination: str) -> None:
    """Copies a version and verifies the copy against the version's manifest.

    Raises:
      VersionError: A file is missing or differs from what was pushed.
    """
    files.copy_directory(version, destination)
    _verify(destination, version)


def verify(version: str, main_file: str = GRAPH_FILE) -> str:
    """Compares the contents of a version's files with its manifest.

    Reads every file once, or only the graph of a SavedModel without a manifest.

    Args:
      version: The version.
      main_file: See `is_model`.

    Returns:
      Why the files were not checked; empty if they were. A SavedModel that was copied
      by hand has no manifest.

    Raises:
      VersionError: A file is missing or differs from what was pushed.
    """
    if _verify(model_directory(version, main_file), version, main_file):
        return ""
    return f"{version} has no {MANIFEST_FILE}, so its files are not checked"


def find_broken_graph(version: str) -> str:
    """Returns why a SavedModel's graph cannot be read; empty if nothing is wrong.

    It needs neither TensorFlow nor protobuf: it checks that the file has the fields of
    a `SavedModel` up to its end, an integer and graphs, and not what is in the graphs.
    """
    content = files.read(uris.join(version, GRAPH_FILE)) or b""
    graphs = position = 0
    while match := _FIELD.match(content, position):
        key, number = match.groups()
        position = match.end()
        if key == _GRAPH_KEY:
            graphs += 1
            position += sum((b & 0x7F) << 7 * i for i, b in enumerate(number))
    if graphs and position == len(content):
        return ""
    return f"{GRAPH_FILE} is not a SavedModel, or only a part of one"


def write_card(pushed: str, render: Callable[[str | None], str]) -> str:
    """Writes the card of a complete version, even if it has been rolled back.

    Args:
      pushed: Directory that the version was pushed to.
      render: Returns the card. Its argument is the card of this version or, if that is
        missing, of the last version before it, rolled back or not. It is None if no
        version has a card. The fields that a person filled in are kept.

    Returns:
      The version's directory, which a rollback moves.

    Raises:
      VersionError: The version is missing or incomplete, or the last card cannot be
        read.
      FileNotFoundError: It was moved or deleted while the card was rendered.
    """
    directory, name = os.path.split(pushed)
    paths = [
        uris.join(parent, version)
        for parent in (directory, uris.join(directory, WITHDRAWN))
        for version in list_versions(parent)
        if int(version) <= int(name)
    ]
    paths.sort(key=lambda path: int(os.path.basename(path)), reverse=True)
    complete = (path for path in paths if not find_problem(path))
    version = next(complete, "")
    if os.path.basename(version) != name:
        raise VersionError(
            pushed,
            "missing or incomplete, so its card is not written",
            name="E-model-damaged",
        )
    # Lazily: on an object store each check of a version costs a request per file.
    described = itertools.chain([version], complete)
    cards = map(_read_card, described)
    card = render(next((card for card in cards if card is not None), None))
    # If a rollback moves the version now, no directory with only a card may appear.
    path = uris.join(version, CARD_FILE)
    files.write(path, card, create_directory=False)
    _share(path, version)
    return version


def write_evaluation(version: str, evaluation: Mapping[str, Any]) -> None:
    """Writes the evaluation of a version next to its card.

    Args:
      version: The result of `write_card`.
      evaluation: A `contracts.records.evaluation.Evaluation` as JSON.

    Raises:
      FileNotFoundError: The version was moved or deleted.
    """
    content = json.dumps(files.with_format(evaluation), indent=1)
    path = uris.join(version, EVALUATION_FILE)
    files.write(path, content, create_directory=False)
    _share(path, version)


def read_evaluation(version: str) -> Any:
    """Returns what `write_evaluation` wrote; None for a version without it."""
    return files.read_record(uris.join(version, EVALUATION_FILE))


def _share(path: str, directory: str) -> None:
    """Lets all who can read a local directory read a path in it and all below.

    The files of a run with `private` can be read by its user only, but a model server
    may be another user.
    """
    if not uris.is_local(path):
        return
    readers = os.stat(directory).st_mode & 0o055
    for shared in (Path(path), *Path(path).rglob("*")):
        before = stat.S_IMODE(shared.stat().st_mode)
        mode = before | (readers if shared.is_dir() else readers & 0o044)
        if mode != before:  # some file systems have no modes to change
            shared.chmod(mode)


def _verify(directory: str, version: str, main_file: str = GRAPH_FILE) -> bool:
    """Compares files with the manifest next to them; returns whether there is one."""
    if is_model(directory, main_file):
        manifest = read_manifest(directory)
        damage = _find_damage(directory, manifest, compare_hashes=True)
        if not manifest and main_file == GRAPH_FILE:
            damage = find_broken_graph(directory)
    else:  # it was withdrawn or deleted in the meantime
        manifest, damage = {}, f"{main_file} is missing"
    if damage:
        raise VersionError(
            version,
            f"damaged: {damage}",
            advice="restore the file, or delete the version so that the previous one "
            "is used",
            name="E-model-damaged",
        )
    return bool(manifest)


def _read_card(version: str) -> str | None:
    path = uris.join(version, CARD_FILE)
    content = files.read(path)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise VersionError(
            path,
            f"not UTF-8 (byte {error.start + 1}), so its entries cannot be kept",
            advice="save it as UTF-8",
            name="E-record-damaged",
        ) from error


def _is_abandoned(number: int, directory: str, version: int) -> bool:
    """Returns whether the push of a number ended without a version.

    On a local disk only one run at a time pushes to a directory. On remote storage
    another push may be running. The number is its start time in milliseconds: after an
    hour it counts as killed.
    """
    if number == version or uris.is_local(directory):
        return number <= version
    return number < (time.time() - _ABANDONED_SECONDS) * _MILLISECONDS


def _describe_file(path: str) -> dict[str, Any]:
    return {"size": files.size(path), "sha256": fingerprint.of_file(path)}


def _find_damage(
    path: str, manifest: dict[str, dict[str, Any]], *, compare_hashes: bool
) -> str:
    """Returns how a file differs from the manifest; empty if all are equal."""
    for name, expected in manifest.items():
        size = files.size(uris.join(path, name))
        if size is None:
            return f"{name} is missing"
        if size != int(expected["size"]):
            return f"{name} has {size} bytes, not {expected['size']}"
        if compare_hashes:
            sha256 = fingerprint.of_file(uris.join(path, name))
            if sha256 != expected["sha256"]:
                return f"{name} differs from the file that was pushed"
    return ""


def _find_missing_variables(path: str) -> str:
    """Returns which file of a SavedModel's variables is missing; empty if none is."""
    names = files.list_names(uris.join(path, VARIABLES))
    shards = next((match[1] for match in map(_SHARD.fullmatch, names) if match), "1")
    expected = {
        f"{VARIABLES}.index",
        *(f"{VARIABLES}.data-{i:05}-of-{int(shards):05}" for i in range(int(shards))),
    }
    missing = expected - names
    if missing == expected:
        graph = files.read(uris.join(path, GRAPH_FILE)) or b""
        if not any(op in graph for op in _VARIABLE_OPS):
            return ""
    return f"{VARIABLES}/{max(missing)} is missing" if missing else ""


def _find_shorter(directory: str, name: str, main_file: str) -> str:
    """Returns a shorter name of a version's number whose version is complete, or ""."""
    if name == str(int(name)):  # no zeros before the number
        return ""
    for other in list_versions(directory):
        is_shorter = int(other) == int(name) and len(other) < len(name)
        path = uris.join(directory, other)
        if is_shorter and not find_problem(path, main_file):
            return other
    return ""


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _incomplete_name(version: str) -> str:
    return f".{version}.incomplete"
