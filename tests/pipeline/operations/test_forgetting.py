"""Forgetting a person leaves no byte of the texts, and everything of others."""

import csv
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts.packing import Packing
from contracts.records.labelled_rows import LabelledFile, LabelledRow
from contracts.storage import files
from contracts.task.definition import TaskConfig
from contracts.versions import served_versions
from ingest.examples.data_card import DataCard
from pipeline.operations import forgetting
from report import page, run_metadata
from report.content import Column, PredictedRow, Report, Split
from report.run_metadata import MetadataReader
from serving import example_records, sampling
from tests import records
from tests.pipeline.past_runs import PastRuns
from tests.refusals import refused

TASK = TaskConfig(text_columns=["review"], classes=["bad", "good"])
QUILL = [
    'Quill\'s 1st review: the "café" <b>closed</b> & I was\tsad.',
    "Quill's 2nd review, of the hotel by the harbour, is much longer than the first.",
    "ok",
    "Shared by two people.",
]
OTHERS = ["Another review of the café.", "Quite another one.", "Shared by two people."]


def write_source(path, people):
    """Writes the file of a user; returns its rows."""
    rows = [
        {"user_id": user, "review": text, "label": index % 2}
        for index, (user, text) in enumerate(
            (user, text) for user, texts in people.items() for text in texts
        )
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["user_id", "review", "label"])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def in_split(artifact, name):
    path = Path(artifact.uri, "Split-train", name)
    path.parent.mkdir(exist_ok=True)
    return path


class Trained(NamedTuple):
    """A run that pushed its model: its record, prepared Examples, model and version."""

    directory: Path
    prepared: Path
    model: Path
    pushed: Path


class Output:
    """An output directory with two runs: of a person's rows, and of other rows."""

    def __init__(self, directory):
        self.past = PastRuns(directory / "output")
        self.paths = self.past.paths
        self.source = directory / "reviews.csv"
        write_source(self.source, {"quill": QUILL, "other": OTHERS})
        self.run = self.train(1, [*QUILL, *OTHERS])
        self.other_run = self.train(2, OTHERS[:2])

    def train(self, version, texts):
        """Adds a run that trained on some texts, and pushed its model."""
        past, pushed = self.past, self.past.push(version)
        directory = self.paths.run(past.run(pushed=str(pushed)).id)
        self.write_record(directory, texts)
        encoded = [text.encode() for text in texts]
        rows = [
            records.example(idx=[index], label=[index % 2], review=[text])
            for index, text in enumerate(encoded)
        ]
        prepared = self.paths.examples(f"of {version}")
        records.write(prepared / "train" / "data-00000-of-00001.tfrecord.gz", rows)
        (examples,) = past.execute("ImportExampleGen", ["examples: Examples"])
        records.write(in_split(examples, "data_tfrecord-00000-of-00001.gz"), rows)
        (statistics,) = past.execute("StatisticsGen", ["statistics: S"], [examples])
        in_split(statistics, "FeatureStats.pb").write_bytes(b"\x41".join(encoded))
        (tokens,) = past.execute("Transform", ["transformed: Examples"], [examples])
        tokens_of_text = [records.example(input_word_ids=[101, 7, 102])]
        records.write(in_split(tokens, "transformed-0.gz"), tokens_of_text)
        model, _ = past.execute(
            "Trainer", ["model: Model", "model_run: ModelRun"], [tokens]
        )
        past.execute("Evaluator", ["evaluation: E"], [examples, model])
        (push,) = past.execute("AtomicPusher", ["pushed: PushedModel"], [model])
        past.set_property(push, "pushed_destination", str(pushed))
        request = {"instances": [{"review": text} for text in (texts[0], texts[-2])]}
        (pushed / served_versions.EXAMPLES_FILE).parent.mkdir()
        served_versions.replace_examples(str(pushed), json.dumps(request).encode())
        return Trained(directory, prepared, Path(model.uri), pushed)

    def write_record(self, directory, texts):
        """Writes what a run has next to its record."""
        settings = {
            "name": "tiny",
            "task": TASK.model_dump(mode="json"),
            "data": {"source": str(self.source)},
            "encoder": {"source": "/encoder"},
            "evaluator": {"thresholds": {"accuracy": 0.5}},
        }
        (directory / "config.yaml").write_text(yaml.safe_dump(settings))
        DataCard(source=str(self.source)).write(directory)
        lines = [f"refused: review is {text[:60]!r}" for text in texts]
        lines += [f"review: {[text.encode()]!r:.80}" for text in texts]
        (directory / "run.log").write_text("\n".join(lines))
        skipped = [{"reason": "x", "values": {"user_id": "quill", "mail": "q@x.org"}}]
        skipped += [{"reason": "x", "values": {"user_id": "other", "mail": "o@x.org"}}]
        lines = [json.dumps(row) for row in skipped]
        (directory / "skipped.jsonl").write_text("\n".join(lines) + "\n")
        column = Column(
            name="review", kind="STRING", top_values=[(text, 1) for text in texts]
        )
        report = Report(
            pipeline="tiny",
            created="2026-01-01T00:00:00+00:00",
            outcome="pushed",
            reasons=[f"rows {texts[1]!r:.70}"],
            task=TASK,
            split="train",
            packing=Packing(),
            data={"card": DataCard(source="x").model_dump()},
            splits=[Split(name="train", rows=len(texts), columns=[column])],
            worst_rows=[
                PredictedRow(
                    id=index,
                    texts=[text],
                    label="bad",
                    prediction="good",
                    probabilities={},
                    loss=1.0,
                    tokens=text.lower().split(),
                    cut=0,
                )
                for index, text in enumerate(texts)
            ],
            batch={
                "input_word_ids": [[1]],
                "input_mask": [[1]],
                "input_type_ids": [[0]],
            },
        )
        rendered = page.render(report)
        report.write(str(directory))
        (directory / "report.html").write_text(rendered)

    def plan(self, **options):
        return forgetting.plan(self.paths, "user_id", "quill", **options)

    def forget(self, **options):
        found = self.plan(**options)
        forgetting.carry_out(self.paths, found)
        return found

    def find(self, marker):
        """Returns the files, decompressed, that have a word that no file escapes."""
        return {
            path.relative_to(self.paths.root).as_posix()
            for path in self.paths.root.rglob("*")
            if path.is_file() and marker.encode() in self.content(path).lower()
        }

    def content(self, path):
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    directory = tmp_path_factory.mktemp("person")
    built = Output(directory)
    shutil.copytree(directory, directory.with_name("saved"))
    return built


@pytest.fixture
def output(built):
    """The output directory at the same path, as ML Metadata has absolute ones."""
    directory = built.source.parent
    shutil.rmtree(directory)
    shutil.copytree(directory.with_name("saved"), directory)
    return built


def test_no_file_has_a_text_and_those_of_others_stay(output):
    before = output.find("another review")
    assert len(output.find("quill")) == 9
    output.forget()
    assert output.find("quill") == set()
    # What a run creates again is deleted as a whole, unless it is of the other run.
    gone = before - output.find("another review")
    assert {path.split("/")[0] for path in gone} == {"artifacts", "examples"}
    assert len(gone) == 3
    assert len(before) == 6 + 7


def test_report_has_the_rows_of_others_and_no_batch(output):
    output.forget()
    report = Report.read(str(output.run.directory))
    # The person's are left out although others have one of the texts, too.
    assert [row.texts for row in report.worst_rows] == [[t] for t in OTHERS[:2]]
    (column,) = report.splits[0].columns
    assert [text for text, _ in column.top_values] == [OTHERS[2], *OTHERS]
    assert report.batch is None
    assert report.reasons == ['rows "[forgotten]']
    assert page.render(report) == (output.run.directory / "report.html").read_text()


def test_rows_of_others_with_ids_of_the_person_in_other_examples_stay(tmp_path):
    output = Output(tmp_path)
    third = output.train(3, [OTHERS[0], QUILL[1]])
    output.forget()
    report = Report.read(str(third.directory))
    assert [row.texts for row in report.worst_rows] == [[OTHERS[0]]]


def test_skipped_rows_and_the_log_of_others_stay(output):
    output.forget()
    (row,) = (output.run.directory / "skipped.jsonl").read_text().splitlines()
    assert json.loads(row)["values"]["user_id"] == "other"
    lines = (output.run.directory / "run.log").read_text().splitlines()
    assert len(lines) == 2 * len([*QUILL, *OTHERS])
    assert f"refused: review is {OTHERS[0]!r}" in lines


def test_what_derives_from_the_rows_runs_again_and_models_stay(output):
    found = output.forget()
    artifacts = MetadataReader.of_file(output.paths.metadata).artifacts()
    live = Counter(a.type for a in artifacts if a.state == mlmd.Artifact.LIVE)
    others = {"Examples": 2, "S": 1, "ModelRun": 1, "E": 1}  # of the other run
    assert live == {"Model": 2, "PushedModel": 2, **others}
    # Token ids have no text.
    assert len([*output.paths.artifacts.glob("Transform/transformed/*")]) == 1
    kept = [output.run.model, output.run.pushed]
    assert [model.path for model in found.models] == kept
    assert all(model.is_certain for model in found.models)
    assert {model.settings for model in found.models} == {
        output.run.directory / "config.yaml"
    }


def test_outputs_of_a_killed_component_are_deleted(output):
    (execution, _) = (
        e.id
        for e in MetadataReader.of_file(output.paths.metadata).all_executions()
        if e.type.endswith("Transform")
    )
    killed = output.paths.artifacts / "Transform" / "more" / str(execution)
    killed.mkdir(parents=True)
    (killed / "tokens").write_text("101")
    output.forget()
    assert not killed.exists()


def test_report_of_other_rows_stays(output):
    report = Report.read(str(output.other_run.directory))
    output.forget()
    assert Report.read(str(output.other_run.directory)) == report
    assert report.batch is not None


def test_pushed_version_is_complete_at_any_time(output, monkeypatch):
    problems = []
    write = files.write

    def watch(path, content, **options):
        write(path, content, **options)
        problems.append(served_versions.find_problem(str(output.run.pushed)))

    monkeypatch.setattr(files, "write", watch)
    output.forget()
    assert problems
    assert set(problems) == {""}
    assert served_versions.verify(str(output.run.pushed)) == ""
    examples = output.run.pushed / served_versions.EXAMPLES_FILE
    assert json.loads(examples.read_text()) == {"instances": [{"review": OTHERS[1]}]}


def test_files_of_a_model_stay_although_a_text_is_a_word_of_its_vocabulary(output):
    write_source(output.source, {"jonathan": QUILL, "other": OTHERS})
    names = ("saved_model.pb", "model.json", "assets/vocab.txt", "onnx/tokenizer.json")
    model = [output.run.pushed / name for name in names]
    for path in model:
        path.parent.mkdir(exist_ok=True)
        path.write_text('["hello", "jonathan"]')
    (output.run.pushed / "manifest.json").unlink()
    served_versions.write_manifest(str(output.run.pushed))
    card = output.run.pushed / served_versions.CARD_FILE
    card.write_text("Rows of jonathan.")
    found = forgetting.plan(output.paths, "user_id", "jonathan")
    forgetting.carry_out(output.paths, found)
    assert {path.read_text() for path in model} == {'["hello", "jonathan"]'}
    assert served_versions.verify(str(output.run.pushed)) == ""
    assert card.read_text() == "Rows of [forgotten]."
    # It is no list of words, so that a person decides.
    assert found.unread == [f"{model[1]} has a text of the rows, and stays"]


def test_version_that_a_rollback_moves_does_not_appear_again(output):
    found = output.plan()
    withdrawn = output.run.pushed.parent / served_versions.WITHDRAWN
    withdrawn.mkdir()
    output.run.pushed.rename(withdrawn / output.run.pushed.name)
    with refused("E-storage-failed") as error:
        forgetting.carry_out(output.paths, found)
    assert "run the command again" in str(error.value)
    assert not output.run.pushed.exists()
    output.forget()
    assert output.find("quill") == set()


BEGINNING = "A text that begins as the form of a shop does: "


def test_rows_that_begin_like_a_row_of_the_person_stay_and_json_is_valid(output):
    person = [f"{BEGINNING}\nI was sad.", f"{BEGINNING}I am sad.", QUILL[0]]
    others = [f'{BEGINNING}"second" is glad.', BEGINNING, f"{BEGINNING}I am glad."]
    write_source(output.source, {"quill": person, "other": others})
    output.write_record(output.run.directory, [*person, *others])
    skipped = output.run.directory / "skipped.jsonl"
    reasons = [f"is {person[0][:80]!r}", f"is {others[2]!r}"]
    lines = [{"reason": r, "values": {"user_id": "other"}} for r in reasons]
    skipped.write_text("\n".join(map(json.dumps, lines)))
    examples = output.run.pushed / served_versions.EXAMPLES_FILE
    rows = [{"review": text} for text in (*person, *others)]
    served_versions.replace_examples(
        str(output.run.pushed), json.dumps({"instances": rows}).encode()
    )
    output.forget()
    assert json.loads(examples.read_text()) == {
        "instances": [{"review": text} for text in others]
    }
    report = Report.read(str(output.run.directory))
    assert [row.texts for row in report.worst_rows] == [[text] for text in others]
    assert [text for text, _ in report.splits[0].columns[0].top_values] == others
    kept = [json.loads(line)["reason"] for line in skipped.read_text().splitlines()]
    assert kept == ["is '[forgotten]'", reasons[1]]
    log = (output.run.directory / "run.log").read_text()
    assert f"refused: review is {others[2][:60]!r}" in log
    assert repr(person[0])[1:-1] not in log


def test_each_line_of_skipped_rows_is_read_by_itself(output):
    skipped = output.run.directory / "skipped.jsonl"
    values = {"user_id": "quill", "mail": "q\u2028x.org"}
    own = json.dumps({"values": values}, ensure_ascii=False)
    skipped.write_text(f'[1]\n{own}\n{{"values"\n{own}\n')
    assert output.forget().unread == [f"{skipped}:3 is not JSON, so it may keep a row"]
    assert skipped.read_text() == '[1]\n{"values"\n'


@pytest.mark.parametrize("written", range(14))
def test_command_that_was_killed_is_completed_by_the_same(output, monkeypatch, written):
    steps = iter(range(written))

    def killed(function):
        def work(*arguments, **options):
            if next(steps, None) is None:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return work

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", killed(files.write))
        patched.setattr(files, "delete_directory", killed(files.delete_directory))
        with pytest.raises(KeyboardInterrupt):
            output.forget()
    output.forget()
    assert output.find("quill") == set()
    assert served_versions.verify(str(output.run.pushed)) == ""
    manifest = served_versions.read_manifest(str(output.run.pushed))
    assert served_versions.EXAMPLES_FILE in manifest
    assert not output.plan().deleted


def test_examples_stay_if_another_directory_cannot_be_deleted(output, monkeypatch):
    def refuse_statistics(directory):
        if "StatisticsGen" in directory:
            raise PermissionError(1, "Operation not permitted", directory)
        shutil.rmtree(directory)

    with monkeypatch.context() as patched:
        patched.setattr(files, "delete_directory", refuse_statistics)
        with refused("E-storage-failed") as error:
            output.forget()
    assert "run `forget` again" in str(error.value)
    assert output.run.prepared.exists()
    assert output.forget().models
    assert output.find("quill") == set()


def test_artifacts_that_have_changed_are_not_of_a_killed_command(output):
    metadata = output.paths.metadata
    artifacts = MetadataReader.of_file(metadata).artifacts()
    run_metadata.mark_as_deleted(metadata, [artifact.id for artifact in artifacts])
    with refused("E-column-missing", setting="column"):
        forgetting.plan(output.paths, "user_id", "nobody")
    output.forget()
    assert output.run.model.exists()
    assert output.other_run.model.exists()


def test_deletion_that_was_killed_is_completed_after_the_data_have_changed(
    output, monkeypatch
):
    def delete_in_part(directory):
        if directory == str(output.run.prepared):
            next(output.run.prepared.rglob("*.gz")).unlink()
            raise KeyboardInterrupt
        shutil.rmtree(directory)

    with monkeypatch.context() as patched:
        patched.setattr(files, "delete_directory", delete_in_part)
        with pytest.raises(KeyboardInterrupt):
            output.forget()
    write_source(output.source, {"other": OTHERS})
    output.forget()
    assert not output.run.prepared.exists()


@pytest.mark.parametrize("column", ["user_id", "user"])
def test_word_of_an_empty_value_is_in_no_row_that_lacks_the_column(output, column):
    with refused("E-column-missing", setting="column"):
        forgetting.plan(output.paths, column, "None")


@pytest.mark.parametrize("value", ["", " "])
def test_empty_value_is_refused(output, value):
    write_source(output.source, {"": QUILL, "other": OTHERS})
    with refused("E-settings-refused", setting="column"):
        forgetting.plan(output.paths, "user_id", value)


def test_listing_changes_nothing(output):
    before = {p: p.read_bytes() for p in output.paths.root.rglob("*") if p.is_file()}
    assert output.plan().deleted
    after = {p: p.read_bytes() for p in output.paths.root.rglob("*") if p.is_file()}
    assert after == before


def test_files_of_the_data_are_named_and_stay(output):
    before = output.source.read_bytes()
    assert output.forget().sources == {str(output.source): len(QUILL)}
    assert output.source.read_bytes() == before
    found = output.plan()
    assert (found.deleted, found.rewritten) == ([], {})
    # Their Examples are gone, so that nobody knows their rows.
    assert [model.is_certain for model in found.models] == [False, False]


def test_column_in_the_examples_is_enough_if_the_data_have_changed(output):
    write_source(output.source, {"other": OTHERS})
    for path in output.paths.root.rglob("data*.gz"):
        rows = [
            records.example(
                **row, user_id=[b"quill" if index < len(QUILL) else b"other"]
            )
            for index, row in enumerate(records.read(path))
        ]
        records.write(path, rows)
    assert output.forget().sources == {}
    assert output.find("quill") == set()


def test_copy_of_changed_data_has_the_rows(output, tmp_path):
    copy = output.source.rename(tmp_path / "copy.csv")
    write_source(output.source, {"other": OTHERS})
    with refused("E-column-missing", setting="column") as error:
        output.plan()
    assert "label, review, user_id" in str(error.value)
    assert output.forget(data=str(copy)).sources == {}
    assert output.find("quill") == set()


def test_copy_that_a_run_reads_is_named(output):
    found = output.plan(data=str(output.source))
    assert found.sources == {str(output.source): len(QUILL)}


def test_file_that_init_split_has_the_column(output, tmp_path):
    split = tmp_path / "split.csv"
    with output.source.open() as source, split.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["review", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(csv.DictReader(source))
    origin = DataCard(source=str(output.source))
    DataCard(source=str(split), origin=origin).write(output.run.directory)
    assert {*output.forget().sources} == {str(output.source), str(split)}
    assert output.find("quill") == set()


def test_labelled_rows_and_results_of_checks_are_deleted(output):
    folder = output.paths.labelled_rows("of rows")
    rows = [LabelledRow(texts={"review": text}, label=0) for text in QUILL]
    LabelledFile(rows=rows).write(str(folder))
    results = output.paths.artifacts / "check_results"
    results.mkdir()
    output.forget()
    assert not folder.exists()
    assert not results.exists()


def test_samples_of_a_server_are_rewritten(output, tmp_path):
    samples = tmp_path / "samples"
    samples.mkdir()
    paths = [samples / f"sample-{index}.tfrecord" for index in range(2)]
    for path, texts in zip(paths, ([*QUILL, OTHERS[0]], QUILL), strict=True):
        rows = ({"review": text, sampling.TIME: 1} for text in texts)
        encoded = map(example_records.encode_example, rows)
        path.write_bytes(b"".join(map(example_records.encode_record, encoded)))
        path.chmod(0o600)
    output.forget(samples=[samples])
    assert records.read(paths[0]) == [
        {"review": [OTHERS[0].encode()], sampling.TIME: [1]}
    ]
    assert paths[0].stat().st_mode & 0o777 == 0o600
    assert not paths[1].exists()


def test_file_that_nobody_writes_again_is_named(output):
    path = output.paths.training / "notes.txt"
    path.parent.mkdir()
    path.write_text(QUILL[0])
    assert output.forget().unread == [f"{path} has a text of the rows, and stays"]


def test_remote_data_are_named(output):
    for run in (output.run, output.other_run):
        DataCard(source="gs://bucket/data").write(run.directory)
    with refused("E-column-missing"):
        output.plan()
    found = output.plan(data=str(output.source))
    assert [text for text in found.unread if text.startswith("gs://bucket/data")]
