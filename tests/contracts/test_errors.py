import pickle

import pytest

from contracts.errors import DataRefusedError, UsageError
from ingest.examples.bad_rows import BadRowsError


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"got": "the server ended"}, "the server ended"),
        ({"setting": "task.kind", "got": "'x'"}, "task.kind: 'x'"),
        ({"setting": "host", "got": "", "allowed": "a"}, "host: ''; allowed: a"),
        (
            {"setting": "vocab.txt", "got": "empty", "advice": "copy it again"},
            "vocab.txt: empty; copy it again",
        ),
        (
            {
                "setting": "min_probability",
                "got": "2",
                "allowed": "above 0 to 1",
                "advice": "leave `min_probability` out",
            },
            "min_probability: 2; allowed: above 0 to 1; leave `min_probability` out",
        ),
        (
            {"advice": "give `data.delimiter=tab` or `min_probability=0.5`"},
            "give settings={'data.delimiter': 'tab'} or min_probability=0.5",
        ),
        (
            {"advice": "give `trainer.epochs=2`, `kind=score` and `output=DIR`"},
            "give settings={'trainer.epochs': 2}, kind='score' and output=DIR",
        ),
        (
            {"advice": "give `strict=True` and `trainer.resume=false`"},
            "give strict=True and settings={'trainer.resume': False}",
        ),
    ],
)
def test_fields_make_one_sentence(fields, sentence):
    error = UsageError(**fields, name="E-x")
    assert error.sentence() == sentence
    assert str(error) == f"{sentence} [E-x]"


def test_error_of_another_process_keeps_its_fields():
    refused = BadRowsError(setting="data", got="2 rows", name="E-x", card="card")
    copy = pickle.loads(pickle.dumps(refused))
    assert isinstance(copy, BadRowsError | DataRefusedError)
    assert (copy.setting, copy.got, copy.name) == ("data", "2 rows", "E-x")
    assert copy.card == "card"
    assert str(copy) == str(refused)
