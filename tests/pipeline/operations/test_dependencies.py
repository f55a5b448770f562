"""A run warns of what differs from the run before."""

import logging

import pytest

from contracts import fingerprint
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder
from pipeline.operations import dependencies
from tests import tiny


@pytest.fixture
def config(tmp_path):
    return load_config(tiny.write_config(tmp_path / "recipe" / "recipe.yaml"))


@pytest.fixture
def warnings(past, config, caplog):
    """Returns the warnings of a new run, after runs with these changes.

    A run whose changes are None ended before its dependencies were known.
    """
    caplog.set_level(logging.WARNING)

    def warn(*earlier, **fields):
        for changes in earlier:
            found = dependencies.find(resolve_encoder(config))
            known = {} if changes is None else {**found, **changes}
            past.run(dependencies=known, **fields)
        found = dependencies.find(resolve_encoder(config))
        record = past.run("running", dependencies=found)
        caplog.clear()
        dependencies.warn_of_changes(record, past.paths)
        return [message for message in caplog.messages if "it was" in message]

    return warn


def test_changed_library_is_a_warning(warnings):
    (warning,) = warnings({}, {"tensorflow": "2.15.0"})
    version = fingerprint.library_versions(["tensorflow"])["tensorflow"]
    assert warning.startswith(f"tensorflow is {version}; it was 2.15.0 in run 2026")


def test_changed_encoder_is_a_warning_though_its_path_is_the_same(
    warnings, config, tmp_path
):
    before = dependencies.find(resolve_encoder(config))
    encoder = tmp_path / "recipe" / "encoder"
    (encoder / "model.safetensors").unlink()
    tiny.write_encoder(tmp_path / "other", seed=1)
    (tmp_path / "other" / "model.safetensors").rename(encoder / "model.safetensors")
    (warning,) = warnings(before)
    now = resolve_encoder(config).fingerprint[:12]
    assert warning.startswith(f"encoder is {now}; it was {before['encoder']} in run ")


def test_equal_dependencies_and_those_of_another_recipe_are_no_warning(warnings):
    assert not warnings({"tensorflow": "2.15.0"}, {})
    assert not warnings({"tensorflow": "2.15.0"}, recipe="other")


def test_run_that_ended_before_its_encoder_was_known_is_skipped(warnings):
    assert len(warnings({"tensorflow": "2.15.0"}, None)) == 1
