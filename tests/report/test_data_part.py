"""The part of a report about the data."""

import pytest
from tensorflow_data_validation.statistics import stats_impl
from tfx_bsl.coders import example_coder

from contracts import run_states
from contracts.packing import Packing
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.verdicts import DataVerdict
from modules.data.profile import Profile
from report import data_part
from tests import records

CARD = {"source": "/data", "fingerprint": "1"}


def write_statistics(path, rows):
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    batch = decoder.DecodeBatch([row.SerializeToString() for row in rows])
    statistics = stats_impl.generate_statistics_in_memory(batch)
    path.write_bytes(statistics.SerializeToString())
    return str(path)


@pytest.fixture
def statistics(tmp_path):
    rows = [
        records.example(
            idx=[index],
            label=[index % 2],
            sentence1=[b"the same text"] if index else [],
            sentence2=[b"x" * index],
            extra=[1.5],
        )
        for index in range(4)
    ]
    return write_statistics(tmp_path / "FeatureStats.pb", rows)


def read(statistics, **verdict):
    settings = Sections(
        name="tiny",
        evaluator=EvaluatorConfig(split="eval"),
        preprocessing=Packing(max_seq_length=32),
    )
    concluded = DataVerdict(card=CARD, **verdict)
    return data_part.describe_refused_data(settings, concluded, {"train": statistics})


def test_columns_of_the_task_come_first_with_their_statistics(statistics):
    (split,) = read(statistics).data.splits
    assert split.rows == 4
    names = [column.name for column in split.columns]
    assert names == ["sentence1", "sentence2", "label", "idx", "extra"]
    first, second, label, *_ = split.columns
    assert (first.kind, first.missing, first.distinct) == ("STRING", 1, 1)
    assert first.top_values == [("the same text", 3)]
    assert second.mean == pytest.approx(1.5)
    assert (label.kind, label.mean, label.minimum, label.maximum) == ("INT", 0.5, 0, 1)


def test_split_has_labels_and_lengths_of_its_profile(statistics):
    lengths = [0] * 30 + [5, 0, 2, 1]  # 5 rows of 30 tokens, 2 of 32, one of 33
    labels = {"not_equivalent": 6, "equivalent": 2}
    profile = Profile(labels, lengths, tokens=200, words=80, unknown=50)
    read_profile = {"train": profile.summary(32)}
    (split,) = read(statistics, profile=read_profile).data.splits
    assert split.labels == {"not_equivalent": 6, "equivalent": 2}
    assert sum(split.lengths.counts) == 8
    assert len(split.lengths.edges) == len(split.lengths.counts) + 1
    assert (split.lengths.cut_rows, split.lengths.cut_tokens) == (1, 1)
    assert (split.lengths.unknown_share, split.lengths.tokens_per_word) == (0.25, 2.5)


def test_problems_of_refused_data_are_its_anomalies(statistics):
    problems = ["train: label: out of range"]
    report = read(statistics, problems=problems, notes=["a note"])
    assert report.outcome == run_states.DATA_REFUSED
    assert report.reasons == report.data.anomalies == problems
    assert report.data.notes == ["a note"]
    assert report.data.splits[0].lengths is None
    (step,) = report.lineage
    assert (step.kind, step.name, step.version, step.uri) == (
        "data",
        "data",
        "1",
        "/data",
    )
