"""New data arrive as spans; training starts from the model in production."""

import shutil

import pytest
import yaml

from contracts.errors import UsageError
from tests import tiny
from tests.e2e.finished_run.components import COMPARED, DATA, RELEASE

pytestmark = pytest.mark.e2e

STARTED = {*DATA, "Transform", "WarmStart", "Trainer"} - {"ImportSchemaGen"}


@pytest.fixture
def train(run, second):
    """Trains as the second run did: on the newest span, from the champion."""

    def train(runner=run, **overrides):
        return runner(**{**second.settings, **overrides})

    return train


@pytest.fixture
def log(console):
    """Returns a function that returns what was printed since its last call."""

    def log():
        text = console.file.getvalue()
        console.file.seek(0)
        console.file.truncate()
        return text.replace("\n", " ")

    return log


def span_in_metadata(finished):
    examples = finished.output("ImportExampleGen", "examples")
    return examples.custom_properties["span"].int_value


def span_in_record(finished):
    newest = max(finished.paths.run("any").parent.iterdir())
    return yaml.safe_load((newest / "config.yaml").read_text())["data"]["span"]


def test_training_on_a_new_span_starts_from_the_champion_and_is_compared_with_it(
    train, start_training, finished, second, log
):
    champion = finished.run.pushed
    spans = finished.recipe.parent / "spans"
    assert second.executed() == STARTED | {"Hyperparameters", *RELEASE}
    assert f"span 1 of {spans}/{{SPAN}}: newest of 1" in second.printed
    assert f"training starts from the champion {champion}" in second.printed
    assert second.run.verdict.champion == str(champion)
    assert second.run.pushed not in (None, champion)
    assert (span_in_metadata(finished), span_in_record(finished)) == (1, 1)

    again, executed = train()
    assert executed == set()  # although the champion has changed since
    assert again.pushed == second.run.pushed

    # Another learning rate starts from the champion that this span started from.
    log()
    executed = train(start_training, trainer__learning_rate=0.002)
    assert executed == {"Hyperparameters", "Trainer"}
    assert f"training starts from the champion {champion}" in log()


@pytest.mark.nightly
def test_next_span_starts_from_the_champion_of_the_previous_one(
    train, start_training, finished, second, log
):
    champion, first = finished.run.pushed, second.run
    spans = finished.recipe.parent / "spans"
    tiny.write_tables(spans / "2", rows=40, splits=("train", "eval"))
    assert train(start_training) == STARTED
    text = log()
    assert f"span 2 of {spans}/{{SPAN}}: newest of 2" in text
    assert f"training starts from the champion {first.pushed}" in text
    assert (span_in_metadata(finished), span_in_record(finished)) == (2, 2)

    # The older span's model is compared with the one that is served now.
    served = first.pushed.with_name(str(int(first.pushed.name) + 1))
    shutil.copytree(champion, served)
    older, executed = train(data__span=1)
    assert executed == set(COMPARED)
    assert older.verdict.champion == str(served)
    assert int(older.pushed.name) > int(served.name)
    assert (span_in_metadata(finished), span_in_record(finished)) == (1, 1)


@pytest.mark.nightly
def test_encoder_of_another_size_is_refused_before_training(
    train, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiny, "HIDDEN", 32)
    monkeypatch.setitem(tiny.CONFIG, "hidden_size", 32)
    wider = tiny.write_encoder(tmp_path / "wider")
    with pytest.raises(UsageError, match="hidden_size 16 instead of 32") as caught:
        train(encoder__source=str(wider))
    assert "set trainer.warm_start to encoder" in str(caught.value)
    assert "Trainer" not in finished.latest_run()
