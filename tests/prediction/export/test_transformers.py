"""An exported folder in Transformers, with real weights and sentences."""

import json
import subprocess

import numpy as np
import pytest

from benchmarks import peer_environment
from contracts.versions import served_versions
from pipeline.config.paths import REPOSITORY
from prediction.export import folders
from tests.prediction.export import minilm

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """A pushed version of MiniLM with a head that nothing trained."""
    root = tmp_path_factory.mktemp("minilm")
    served_versions.push(str(minilm.push(root)), str(root / "pushed"), "1")
    return root / "pushed" / "1"


def test_transformers_predicts_what_is_served(pushed, mrpc, tmp_path):
    folder, rows, outputs = (tmp_path / n for n in ("folder", "rows.json", "out.npz"))
    folders.export(str(pushed), str(folder), lambda line: None)
    pairs = minilm.read_mrpc(mrpc)
    # Truncated ones, the first text longer than the second.
    long = [(f"{a} {b} {a} {b} {a} {b} ", f"{b} {a} {b}") for a, b in pairs[:100]]
    rows.write_text(json.dumps([*pairs, *long]))
    module = "benchmarks.peers.transformers_outputs"
    subprocess.run(
        [peer_environment.build(), "-m", module, str(folder), str(rows), str(outputs)],
        check=True,
        cwd=REPOSITORY,
    )
    actual = np.load(outputs)
    expected = minilm.tokenize(pushed, [*pairs, *long])
    for name, lists in zip(("input_ids", "token_type_ids"), expected, strict=True):
        ids = [[i for i in row if i >= 0] for row in actual[name].tolist()]
        assert ids == lists
    assert max(map(len, expected[0])) == minilm.LENGTH
    np.testing.assert_allclose(
        actual["logits"], minilm.predict(pushed, [*pairs, *long]), rtol=1e-5, atol=1e-5
    )
