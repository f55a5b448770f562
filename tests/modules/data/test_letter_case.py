"""Whether text is put in lower case: the setting decides, else the vocabulary."""

import json

import pytest
import tensorflow as tf

from modules.data import preprocessing


def test_cased_vocabulary_keeps_capitals(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nCat\ncat\n")
    (ids,) = preprocessing.tokenize([tf.constant(["Cat cat"])], str(path))
    assert ids.to_list() == [[4, 5]]
    assert preprocessing.is_cased(str(path))


def write_vocabulary(directory, *words):
    path = directory / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]) + "\n")
    return str(path)


def test_marker_words_in_capitals_do_not_make_a_vocabulary_cased(tmp_path):
    """Google's `chinese_L-12_H-768_A-12` has `<S>` and `<T>` and is uncased."""
    path = write_vocabulary(tmp_path, "[MASK]", "<S>", "<T>", "nba")
    assert not preprocessing.is_cased(path)
    (ids,) = preprocessing.tokenize([tf.constant(["NBA nba"])], path)
    assert ids.to_list() == [[7, 7]]


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "bert_config.json", "config.json"]
)
@pytest.mark.parametrize(("lower_case", "ids"), [(True, [5, 5]), (False, [4, 5])])
def test_explicit_lower_case_setting_decides(tmp_path, name, lower_case, ids):
    path = write_vocabulary(tmp_path, "Cat", "cat")
    (tmp_path / name).write_text(json.dumps({"do_lower_case": lower_case}))
    (token_ids,) = preprocessing.tokenize([tf.constant(["Cat cat"])], path)
    assert token_ids.to_list() == [ids]


def test_lower_case_setting_of_the_tokenizer_comes_before_the_models(tmp_path):
    path = write_vocabulary(tmp_path, "cat")
    (tmp_path / "config.json").write_text(json.dumps({"do_lower_case": True}))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert preprocessing.is_cased(path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": null}')
    assert not preprocessing.is_cased(path)
