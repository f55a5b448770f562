"""The data and the models that checks call."""

import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from components.model_checks.check import Data, Facts, Model, NotApplicable
from components.model_checks.host import Host, read_threshold
from components.serving_check import model_process
from components.serving_check.model_process import ModelProcess
from contracts.settings.data import DataConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.settings.serving import ServingConfig
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model, served_versions
from tests import exported as exported_lib
from tests import records, served, warm_probe

pytestmark = pytest.mark.slow

TASK = TaskConfig(classes=["short", "long"], weight_column="weight")
TEXTS = [("a", "bbb"), ("ccc", "d"), ("ee", "ff"), ("ggggg", "hhh"), ("i", "j")]
DAY = 86_400_000
NOW = int(time.time() * 1000)


@pytest.fixture(autouse=True)
def forked_probes(monkeypatch):
    warm_probe.install(monkeypatch)


def example(index, left, right):
    return records.example(
        sentence1=[left.encode()],
        sentence2=[right.encode()],
        idx=[index],
        label=[index % 2],
        weight=[0.5 * index],
        region=[b"north" if index < 3 else b"south"],
    )


@pytest.fixture
def open_host(tmp_path):
    """Opens a host on toy rows and models."""

    def open_host(models=None, task=TASK, rows=None, **options):
        examples = rows or [example(i, *texts) for i, texts in enumerate(TEXTS)]
        patterns = {}
        for split in ("train", "eval"):
            name = "*" if split == "eval" else "train.gz"
            path = tmp_path / split / "a.gz"
            patterns[split] = str(path.with_name(name if name == "*" else "a.gz"))
            records.write(path, examples[::2])
            records.write(path.with_name("b.gz"), examples[1::2])
        models = models or {}
        facts = Facts(
            task=task,
            split="eval",
            significance=0.05,
            metrics={},
            slices=[],
            not_compared="",
            thresholds={name: read_threshold(path) for name, path in models.items()},
            splitting=None,
        )
        settings = Sections(
            task=task,
            data=DataConfig(slice_columns=["region"] if rows is None else []),
            evaluator=EvaluatorConfig(split="eval"),
        )
        host = Host(settings, facts, patterns, models, **options)
        host.limit(60, "timeout")
        return host

    return open_host


def save(root, predict=served.share, task=TASK, **options):
    """Saves a model with its description; returns the SavedModel."""
    model = served.save_toy(root, predict, **options) / "Format-Serving"
    exported_model.write_description(str(model), exported_model.describe_task(task))
    return str(model)


def test_rows_have_labels_texts_weights_and_slices_of_the_evaluation(open_host):
    with open_host() as host:
        rows = Data(host.facts, host.call).rows()
    order = np.argsort(rows.ids)
    assert [rows.texts[index] for index in order] == TEXTS
    assert rows.labels[order].tolist() == [0, 1, 0, 1, 0]
    assert rows.weights[order].tolist() == [0, 0.5, 1, 1.5, 2]
    assert rows.slices.keys() == {"pair_length", "word_overlap", "region"}
    assert [rows.slices["region"][index] for index in order] == [
        *["north"] * 3,
        *["south"] * 2,
    ]


def test_sample_is_the_same_for_any_order_of_the_rows(open_host):
    rows = [example(index, f"text {index}", "") for index in range(40)]
    drawn = []
    for order in (rows, rows[::-1]):
        with open_host(rows=order) as host:
            drawn.append(host.rows("eval", 10).ids.tolist())
    assert drawn[0] == drawn[1]
    assert sorted(drawn[0]) != list(range(10))


def test_tokens_that_a_model_reads_and_cuts_are_counted(export, open_host):
    exported = export("pairs")
    rows = [
        tf.train.Example.FromString(exported_lib.serialize(row))
        for row in exported_lib.rows_of(
            exported.task, exported_lib.PAIRS, [0] * len(exported_lib.PAIRS)
        )
    ]
    models = {"candidate": str(exported.directory)}
    with open_host(models, exported.task, rows) as host:
        model = Model("candidate", exported.task, None, host.call)
        read, cut = model.tokens(exported_lib.PAIRS)
        outputs = model.outputs(exported_lib.PAIRS)
    np.testing.assert_allclose(outputs, exported.probabilities, atol=1e-5)
    assert read[1].tolist() == [1, 1]
    assert cut[1].tolist() == [0, 0]
    assert read[2].sum() == exported_lib.MAX_SEQ_LENGTH - 3
    assert (read + cut)[2].tolist() == [80, 60]
    assert read[3].tolist() == [0, 0]


def test_champion_that_cannot_be_timed_is_an_error_with_its_signature(
    open_host, tmp_path
):
    models = {
        "candidate": save(tmp_path / "new"),
        "champion": save(tmp_path / "old", output="scores"),
    }
    with open_host(models) as host:
        data = Data(host.facts, host.call)
        candidate = Model("candidate", TASK, None, host.call)
        timed = data.time_in_turn({"model": (candidate, TEXTS)})
        assert len(timed["model"]) == len(TEXTS)
        assert all(timed["model"] > 0)
        with pytest.raises(RuntimeError, match="of the champion returns scores, not p"):
            data.time_in_turn(
                {"model": (candidate, TEXTS), "champion": (data.champion, TEXTS)}
            )
        # The process is still there.
        assert candidate.outputs(TEXTS).shape == (len(TEXTS), 2)


def test_model_that_serving_check_refused_is_not_called(open_host, tmp_path):
    with open_host({"candidate": "nowhere"}, unserved="refused before") as host:
        model = Model("candidate", TASK, None, host.call)
        with pytest.raises(NotApplicable, match="refused before"):
            model.predict(TEXTS)
        with pytest.raises(NotApplicable, match="refused before"):
            model.tokens(TEXTS)


def test_batches_share_one_deadline(open_host, tmp_path, monkeypatch):
    monkeypatch.setattr("components.model_checks.host._BATCH", 1)
    limits = []
    receive = ModelProcess._receive

    def record(self, phase, deadline, limit):
        limits.append((deadline, limit))
        return receive(self, phase, deadline, limit)

    with open_host({"candidate": save(tmp_path / "model")}) as host:
        candidate = Model("candidate", TASK, None, host.call)
        candidate.outputs(TEXTS[:1])
        monkeypatch.setattr(ModelProcess, "_receive", record)
        host.limit(50, "checks.slow.timeout")
        candidate.outputs(TEXTS)
    assert len(limits) == len(TEXTS) - 1
    ((_, limit),) = set(limits)
    assert limit == "the 50 s of checks.slow.timeout"


def not_finite(left, right):
    return tf.fill([tf.size(left), 2], np.float32("nan"))


def test_process_of_the_serving_check_is_taken_with_its_model(open_host, tmp_path):
    model, other = save(tmp_path / "new"), save(tmp_path / "other")
    kept = []
    for _ in range(2):
        with model_process.ModelProcess(ServingConfig()) as process:
            process.limit(60)
            process.load(model_process.CANDIDATE, model)
            process.keep()
        kept.append(process._process)
    assert kept[0].poll() is not None  # only the last one is kept
    with open_host({"candidate": other}) as host:
        Model("candidate", TASK, None, host.call).outputs(TEXTS)
    assert kept[1].poll() is None
    with open_host({"candidate": model}) as host:
        assert host.start() is process
        Model("candidate", TASK, None, host.call).outputs(TEXTS)
    assert kept[1].poll() is not None
    with model_process.ModelProcess(ServingConfig()) as process:
        process.limit(60)
        process.keep()
    model_process.end_kept()
    assert process._process.poll() is not None


def test_older_versions_are_called_or_have_a_problem(open_host, tmp_path):
    pushed = tmp_path / "serving"
    good, bad = save(tmp_path / "good"), save(tmp_path / "bad", not_finite)
    other = save(tmp_path / "other", task=TaskConfig(classes=["no", "yes"]))
    for days, model in ((10, bad), (20, good), (30, other), (40, good)):
        served_versions.push(model, str(pushed), str(NOW - days * DAY))
    damaged = pushed / str(NOW - 40 * DAY) / "saved_model.pb"
    damaged.write_bytes(damaged.read_bytes()[::-1])
    candidate = shutil.copytree(good, tmp_path / "candidate")
    (candidate / "fingerprint.pb").write_bytes(b"of the new model")
    served_versions.push(str(candidate), str(pushed), str(NOW))
    identity = exported_model.identity(str(candidate))
    options = {"identity": identity, "pushed": str(pushed)}
    with open_host({"candidate": str(candidate)}, **options) as host:
        data = Data(host.facts, host.call)
        versions = list(data.older_versions(9))
        assert [round((NOW / 1000 - v.pushed) / 86_400) for v in versions] == [
            *(10, 20, 30, 40)
        ]
        assert [version.model is None for version in versions] == [
            *(False, False, True, True)
        ]
        assert versions[2].problem.startswith("another task: classes ['no', 'yes']")
        assert "saved_model.pb" in versions[3].problem
        with pytest.raises(RuntimeError, match="is not finite in 5 of 5 rows"):
            versions[0].model.outputs(data.rows())
        assert host.problem == ""  # the candidate has none
        outputs = versions[1].model.outputs(data.rows())
        assert outputs.sum(axis=1) == pytest.approx(np.ones(5))
        assert len(list(data.older_versions(1))) == 1
