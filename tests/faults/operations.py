"""The operations that must not lose what was there before, whichever call fails."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contracts import verdicts, written_files
from contracts.records.evaluation import Verdict
from contracts.versions import served_versions
from ingest.examples.preparation import find_examples
from pipeline.config.paths import OutputPaths
from pipeline.operations import releases
from pipeline.operations.record import RunRecord, read_record
from pipeline.operations.releases import Release
from tests import tiny

Step = Callable[[Path], Any]


def warm_up() -> None:
    """Imports what the operations need, so that a forked process need not."""
    from modules import environment

    environment.set_up(quiet=True)
    import scipy.stats  # noqa: F401
    import tensorflow  # noqa: F401

    from modules.encoder import conversion  # noqa: F401
    from modules.training import checkpoints, model_run  # noqa: F401
    from pipeline.cli import main  # noqa: F401
    from pipeline.onboarding import create  # noqa: F401
    from pipeline.operations import override  # noqa: F401
    from prediction.batch import predict_files  # noqa: F401


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation on the files of a directory.

    Attributes:
      prepare: Writes what is there before.
      run: The operation. Done again, it must lead to the same outcome.
      check: Raises an error if something that was there before is lost.
      outcome: Returns what the user has, as JSON.
    """

    prepare: Step
    run: Step
    check: Step
    outcome: Step


def _command(*arguments: object) -> None:
    """Runs a command as `python -m pipeline` does."""
    from pipeline.cli.main import main

    main([str(argument) for argument in arguments])


def _contents(directory: Path, pattern: str = "**/*") -> dict[str, str]:
    """Returns what files contain that are not hidden, by relative path."""
    return {
        str(path.relative_to(directory)): path.read_bytes().hex()
        for path in sorted(directory.glob(pattern))
        if path.is_file() and not path.name.startswith(".")
    }


# --- A model is pushed. ---


MODEL = {
    "saved_model.pb": b"graph",
    "fingerprint.pb": b"fingerprint",
    "variables/variables.index": b"index",
    "variables/variables.data-00000-of-00001": b"weights" * 1000,
    "assets/vocab.txt": b"[PAD]\n",
}


def _write_model(directory: Path, name: str) -> Path:
    for file, content in MODEL.items():
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content + name.encode())
    return directory


def _prepare_push(work: Path) -> None:
    (work / "blessing").mkdir()
    (work / "blessing" / verdicts.SERVING_EXAMPLES_FILE).write_text("[]")
    _push(_write_model(work / "first", "first"), work, "100")
    _write_model(work / "second", "second")


def _push(model: Path, work: Path, version: str) -> None:
    blessing = str(work / "blessing")
    served_versions.push(str(model), str(work / "served"), version, blessing=blessing)


def _prepare_damaged_push(work: Path) -> None:
    _prepare_push(work)
    _push(work / "second", work, "200")
    (work / "served/200/assets/vocab.txt").unlink()


def _check_served(work: Path) -> None:
    """Each version that a model server would load is one of the pushed models."""
    complete = list(served_versions.list_complete(str(work / "served")))
    assert complete[-1] == "100", complete
    models = {"100": work / "first", "200": work / "second"}
    for version in complete:
        expected = _contents(models[version])
        pushed = _contents(work / "served" / version)
        assert pushed.items() >= expected.items(), version


def _served(work: Path) -> Any:
    return _contents(work / "served")


# --- A person serves an earlier version, or pushes a refused model. ---


def _past(work: Path) -> Any:
    from tests.pipeline.past_runs import PastRuns

    return PastRuns(work / "output")


def _prepare_rollback(work: Path) -> None:
    past = _past(work)
    for version in (1, 2, 3):
        past.push(version)


def _versions(work: Path) -> dict[str, Any]:
    pushed = OutputPaths(work / "output", "tiny").pushed
    releases = [(r.version, r.action, r.reason, r.confirmed) for r in _journal(work)]
    return {
        "served": list(served_versions.list_complete(str(pushed))),
        "withdrawn": served_versions.list_versions(
            str(pushed / served_versions.WITHDRAWN)
        ),
        "journal": sorted(set(releases)),
    }


def _journal(work: Path) -> list[Release]:
    return releases.read_journal(OutputPaths(work / "output", "tiny").pushed)


def _check_rollback(work: Path) -> None:
    found = _versions(work)
    assert found["served"] in (["3", "2", "1"], ["2", "1"]), found
    assert sorted([*found["served"], *found["withdrawn"]]) == ["1", "2", "3"], found
    # No version is withdrawn without a record.
    assert found["journal"] or not found["withdrawn"], found


def _prepare_override(work: Path) -> None:
    _, model = _past(work).refuse(id="20260101-000000Z-000000")
    _write_model(model, "refused")


def _override(work: Path) -> None:
    arguments = ("--reason", "a typo", "--output", work / "output")
    _command("override", "20260101-000000Z-000000", *arguments)


def _overridden(work: Path) -> Any:
    from pipeline.operations.run import Run
    from report.run_metadata import MetadataReader

    paths = OutputPaths(work / "output", "tiny")
    run = read_record(paths.run("20260101-000000Z-000000"))
    reader = MetadataReader.of_file(paths.metadata)
    verdict = Run(paths, run).verdict
    assert verdict is not None
    executions = [
        execution.custom_properties["version"].string_value
        for execution in reader.all_executions()
        if "by" in execution.custom_properties
    ]
    versions = _versions(work)
    (version,) = versions["served"] or [None]  # the time of the push
    return {
        "is served": bool(version),
        "journal": [
            (str(number) == version, *others)
            for number, *others in versions["journal"]
            if others[-1]
        ],
        "in the verdict": verdict.override and str(verdict.override.version) == version,
        "in the run's record": run.pushed and Path(run.pushed).name == version,
        "in ML Metadata": [other == version for other in executions],
    }


def _check_override(work: Path) -> None:
    # No version is served without a record.
    assert _journal(work) or not _overridden(work)["is served"]


# --- Records. ---


def _add_release(work: Path, version: int) -> None:
    releases.add_release(
        work, Release(action="rollback", version=version, reason="bad")
    )


def _run_directory(work: Path) -> Path:
    return work / "20260101-000000Z-000000"


def _write_run(work: Path, state: str = "running") -> None:
    directory = _run_directory(work)
    directory.mkdir(exist_ok=True)
    record = RunRecord(id=directory.name, recipe="tiny")
    if state != "running":
        record.finish("pushed/1", "", 0.9, {})
    record.write(directory)


def _read_run(work: Path) -> Any:
    record = read_record(_run_directory(work))
    assert not record.damage, record.damage
    return record.state, record.pushed


def _write_verdict(work: Path, blessed: bool) -> None:
    verdict = Verdict(blessed=blessed, splits=["eval"], champion=None, metrics=[])
    verdict.write(str(work))


def _read_verdict(work: Path) -> Any:
    verdict = Verdict.read(str(work))
    assert verdict
    return verdict.blessed


def _prepare_clean(work: Path) -> None:
    past = _past(work)
    for _ in range(3):
        past.run()
        past.execute("Trainer", ["model: Model"])


def _cleaned(work: Path) -> Any:
    paths = OutputPaths(work / "output", "tiny")
    return {
        "artifacts": sorted(_contents(paths.artifacts)),
        "runs": sorted(path.parent.name for path in work.glob("output/**/run.json")),
    }


def _check_clean(work: Path) -> None:
    found = _cleaned(work)
    assert "Trainer/model/3/content" in found["artifacts"], found
    assert "20260101-030000Z-000000" in found["runs"], found


# --- Checkpoints, and the record of the best model. ---


class _Training:
    """A model of one weight, whose value is the step."""

    def __init__(self, directory: str) -> None:
        import tensorflow as tf

        from modules.training import checkpoints

        self.step = tf.Variable(0, dtype=tf.int64)
        self.weight = tf.Variable(0.0)
        self.model = tf.Module()
        self.model.weight = self.weight
        self.optimizer = None
        self.manager = checkpoints.ResumableCheckpoints(
            tf.train.Checkpoint(step=self.step, weight=self.weight),
            directory,
            step_counter=self.step,
            interval=1,
            max_to_keep=2,
            init_fn=lambda: None,
        )

    def go_to(self, step: int) -> None:
        self.step.assign(step)
        self.weight.assign(step)


def save_checkpoints(directory: str, *steps: int) -> int:
    """Resumes the training, and saves the later ones of some steps.

    Returns:
      The step that it resumed from.
    """
    training = _Training(directory)
    training.manager.restore_or_initialize()
    resumed = int(training.step)
    for step in steps:
        if step > int(training.step):
            training.go_to(step)
            training.manager.save(checkpoint_number=step)
            training.manager.wait()
    return resumed


def restored_step(directory: str) -> int:
    """Returns the step of the checkpoint that a training would resume from."""
    training = _Training(directory)
    training.manager.restore_or_initialize()
    assert int(training.step) == float(training.weight)
    return int(training.step)


def check_checkpoint(directory: str) -> None:
    """Raises an error unless the last checkpoint is that of step 2 or 3."""
    assert restored_step(directory) in (2, 3)


def record_best(directory: str, *steps: int) -> None:
    """Records that each of some steps is better than the one before."""
    from modules.training.model_run import TrainingRecord

    training = _Training(directory)
    record = TrainingRecord(directory, "accuracy")
    for step in steps:
        if not record.has_evaluation(step):
            training.go_to(step)
            record.add(step, {"accuracy": step / 10}, training)  # type: ignore[arg-type]


def best_step(directory: str) -> Any:
    """Returns the step of the best model, whose weights are restored."""
    from modules.training.model_run import TrainingRecord

    training = _Training(directory)
    record = TrainingRecord(directory, "accuracy")
    record.restore_best(training.model)  # type: ignore[arg-type]
    assert record.best
    assert record.best.step == float(training.weight)
    return record.best.step


def check_best(directory: str) -> None:
    """Raises an error unless the best step is 1 or 2."""
    assert best_step(directory) in (1, 2)


# --- From a user's files. ---


def _import_encoder(work: Path) -> None:
    _command("import-encoder", work / "encoder", work / "imported")


def _whole(directory: Path) -> Any:
    """Returns the files of a directory that appears when it is complete."""
    if not directory.exists():
        return None
    assert not written_files.find_changes(directory)
    return sorted(_contents(directory))


def _write_rows(work: Path) -> None:
    tiny.write_config(work / "recipe.yaml")


def _prepare_data(work: Path) -> None:
    config = work / "recipe.yaml"
    _command("prepare-data", work / "data", work / "records", "--config", config)


def _prepared(work: Path) -> Any:
    if not (work / "records").exists():
        return None
    card = find_examples(str(work / "records")).card
    rows = {name: split.rows for name, split in card.splits.items()}
    return _whole(work / "records"), rows


def _init(work: Path) -> None:
    arguments = ("--data", work / "data", "--encoder", work / "encoder")
    accepts_few_rows = ("--set", "data_gate.max_interval=0.5")
    _command("init", work / "project", *arguments, *accepts_few_rows)


def _project(work: Path) -> Any:
    if not (work / "project").exists():
        return None
    assert (work / "project/recipe.yaml").read_text()
    return sorted(_contents(work / "project"))


def _prepare_prediction(work: Path) -> None:
    from tests import toy_models

    toy_models.save(toy_models.Length(), work / "model/1")
    texts = "".join(f"{i},{'x' * i}\n" for i in range(1, 40))
    (work / "texts.csv").write_text("id,sentence\n" + texts)
    (work / "old.csv").write_text("of the last time\n")


def _predict(work: Path, destination: str) -> None:
    source, model = work / "texts.csv", work / "model"
    arguments = ("--input", source, "--output", work / destination)
    _command("predict", "--model", model, *arguments)


def _predicted(work: Path, destination: str) -> Any:
    path = work / destination
    if path.is_dir():
        parts = sorted(path.glob("[!.]*.csv"))
        return sum(len(part.read_text().splitlines()) - 1 for part in parts)
    return path.read_text()


def _check_prediction(work: Path) -> None:
    content = (work / "old.csv").read_text()
    assert content == "of the last time\n" or len(content.splitlines()) == 40


def _check_predictions(work: Path) -> None:
    if (work / "predictions/summary.json").exists():
        assert json.loads((work / "predictions/summary.json").read_text())
        assert _predicted(work, "predictions") == 39


def _write_in_place(work: Path, content: str) -> None:
    (work / "file").write_text(content * 1000)


def _check_in_place(work: Path) -> None:
    assert set((work / "file").read_text()) in ({"1"}, {"2"})
    assert len((work / "file").read_text()) == 1000


# One that loses data, to see that it is found.
PLANTED = "a write in place"

OPERATIONS = {
    PLANTED: Operation(
        lambda work: _write_in_place(work, "1"),
        lambda work: _write_in_place(work, "2"),
        _check_in_place,
        lambda work: (work / "file").read_text(),
    ),
    "push": Operation(
        _prepare_push,
        lambda work: _push(work / "second", work, "200"),
        _check_served,
        _served,
    ),
    "push in place of a damaged version": Operation(
        _prepare_damaged_push,
        lambda work: _push(work / "second", work, "200"),
        _check_served,
        _served,
    ),
    "rollback": Operation(
        _prepare_rollback,
        lambda work: _command("rollback", 2, "--output", work / "output"),
        _check_rollback,
        _versions,
    ),
    "override": Operation(_prepare_override, _override, _check_override, _overridden),
    "release journal": Operation(
        lambda work: _add_release(work, 1),
        lambda work: _add_release(work, 2),
        lambda work: releases.read_journal(work)[0].version == 1 or 1 / 0,
        lambda work: sorted(
            {release.version for release in releases.read_journal(work)}
        ),
    ),
    "run record": Operation(
        _write_run, lambda work: _write_run(work, "pushed"), _read_run, _read_run
    ),
    "verdict": Operation(
        lambda work: _write_verdict(work, False),
        lambda work: _write_verdict(work, True),
        _read_verdict,
        _read_verdict,
    ),
    "clean": Operation(
        _prepare_clean,
        lambda work: _command(
            "clean", "--keep", 1, "--yes", "--output", work / "output"
        ),
        _check_clean,
        _cleaned,
    ),
    "checkpoint": Operation(
        lambda work: save_checkpoints(f"{work}/training", 1, 2),
        lambda work: save_checkpoints(f"{work}/training", 1, 2, 3),
        lambda work: check_checkpoint(f"{work}/training"),
        lambda work: restored_step(f"{work}/training"),
    ),
    "record of the best model": Operation(
        lambda work: record_best(f"{work}/training", 1),
        lambda work: record_best(f"{work}/training", 1, 2),
        lambda work: check_best(f"{work}/training"),
        lambda work: best_step(f"{work}/training"),
    ),
    "import-encoder": Operation(
        lambda work: tiny.write_encoder(work / "encoder"),
        _import_encoder,
        lambda work: _whole(work / "imported"),
        lambda work: _whole(work / "imported"),
    ),
    "prepare-data": Operation(_write_rows, _prepare_data, _prepared, _prepared),
    "init": Operation(_write_rows, _init, _project, _project),
    "predict a file": Operation(
        _prepare_prediction,
        lambda work: _predict(work, "old.csv"),
        _check_prediction,
        lambda work: _predicted(work, "old.csv"),
    ),
    "predict to a directory": Operation(
        _prepare_prediction,
        lambda work: _predict(work, "predictions"),
        _check_predictions,
        lambda work: _predicted(work, "predictions"),
    ),
}
