"""Secrets in settings are refused, and the refusal does not show them."""

import re

import pytest

from pipeline.config import secrets
from pipeline.config.recipe import load_beam, load_config
from pipeline.orchestrators.kubeflow.login import KubeflowServer
from tests import tiny
from tests.refusals import refused

SECRET = "planted-5f1c"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("beam.options", [f"--s3_secret_access_key={SECRET}"]),
        ("beam.options", ["--max_bundle_size=5", f"--S3_SESSION_TOKEN={SECRET}"]),
        ("kubeflow.beam.options", [f"--password={SECRET}"]),
        ("beam.options", [f"--aws-secret-access-key={SECRET}"]),
        ("beam.options", [f"--api-key={SECRET}"]),
        ("data.source", f"https://user:{SECRET}@example.com/pairs"),
        ("encoder.source", f"https://:{SECRET}@example.com/encoder"),
        ("task.text_columns", f"https://user:{SECRET}@a"),  # a wrong type, too
    ],
)
def test_setting_with_a_secret_is_refused_and_not_shown(tmp_path, key, value):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    loads = [load_config, *[load_beam] * key.startswith("beam.")]
    for load in loads:
        with refused("E-secret-visible", setting=key) as error:
            load(recipe, {key: value})
        assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "registry:5000/bert:1@sha256:0123",
        "--dataflow_kms_key=name",
        "--tokenizer=wordpiece",
        "gs://bucket/a@b",
        "https://host:8080/a",
    ],
)
def test_settings_that_resemble_secrets_are_accepted(text):
    secrets.refuse("key", text)


@pytest.mark.parametrize("url", ["https://user:{}@host", "user:{}@host:9091"])
def test_address_with_a_password_is_refused_and_not_shown(url):
    with refused("E-secret-visible", setting="pushgateway") as error:
        secrets.refuse_password("pushgateway", url.format(SECRET))
    assert SECRET not in str(error.value)
    with refused("E-secret-visible", setting=re.compile("host")):
        KubeflowServer(url.format(SECRET))
