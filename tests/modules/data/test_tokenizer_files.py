"""A tokenizer's settings: from its files, else from its vocabulary."""

import dataclasses
import json

import pytest

from contracts.tokenization import TokenizerSettings
from modules.data import tokenizer_files
from tests import tiny
from tests.modules.encoder import sources


def write(directory, *words, **files):
    """Writes a vocabulary and JSON files, whose names have no `.json` here."""
    path = directory / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]) + "\n")
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("words", "lower_case"),
    [
        (["Cat", "cat"], False),
        (["cat"], True),
        # Google's `chinese_L-12_H-768_A-12` has `<S>` and `<T>` and is uncased.
        (["[MASK]", "<S>", "<T>", "nba"], True),
    ],
)
def test_capital_letter_in_a_word_keeps_case(tmp_path, words, lower_case):
    settings = tokenizer_files.read_tokenizer(write(tmp_path, *words)).settings
    assert settings == TokenizerSettings(lower_case, strip_accents=lower_case)


@pytest.mark.parametrize("name", ["tokenizer_config", "bert_config", "config"])
@pytest.mark.parametrize("lower_case", [True, False])
def test_explicit_settings_decide(tmp_path, name, lower_case):
    stated = TokenizerSettings(lower_case, not lower_case, False, 50)
    path = write(tmp_path, "Cat", "cat", **{name: dataclasses.asdict(stated)})
    assert tokenizer_files.read_tokenizer(path).settings == stated


def test_settings_of_the_tokenizer_come_before_the_models(tmp_path):
    def lower_case(value):
        files = {"tokenizer_config": {"do_lower_case": value}}
        path = write(tmp_path, "cat", config={"do_lower_case": True}, **files)
        return tokenizer_files.read_tokenizer(path).settings.do_lower_case

    assert not lower_case(False)
    assert lower_case(None)


def test_settings_of_the_files_of_a_tokenizer_complete_each_other(tmp_path):
    tokenizer = tiny.tokenizer_json(max_input_chars_per_word=200)
    tokenizer["normalizer"] |= {"strip_accents": False, "handle_chinese_chars": False}
    path = write(
        tmp_path,
        *tiny.VOCAB[4:],
        tokenizer=tokenizer,
        tokenizer_config={"do_lower_case": True, "strip_accents": None},
        special_tokens_map={"cls_token": {"content": "[CLS]"}, "sep_token": "[SEP]"},
        added_tokens={},
    )
    assert tokenizer_files.read_tokenizer(path).settings == TokenizerSettings(
        do_lower_case=True,
        strip_accents=False,
        tokenize_chinese_chars=False,
        max_input_chars_per_word=200,
    )


@pytest.mark.parametrize(
    ("settings", "got"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "'BertJapaneseTokenizer'"),
        ({"word_tokenizer_type": "mecab"}, "'mecab'"),
        ({"subword_tokenizer_type": "character"}, "'character'"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize False"),
        ({"never_split": ["new york"]}, "never_split has 'new y"),
        ({"auto_map": {"AutoTokenizer": ["a.B", None]}}, "own code"),
        (
            {"added_tokens_decoder": {"7": {"content": "covid", "special": False}}},
            "added_tokens_decoder has 'covid'",
        ),
        ({"extra_special_tokens": {"e": "<e>"}}, "'<e>'"),
        ({"bos_token": "<s>"}, "bos_token has '<s>'"),
        ({"wordpieces_prefix": "@@"}, "'@@'"),
    ],
)
def test_tokenizer_that_splits_text_differently_is_refused(tmp_path, settings, got):
    write(tmp_path, tokenizer_config=settings)
    with sources.refused("not-supported", tmp_path / "tokenizer_config.json", got):
        tokenizer_files.read_tokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
    ("file", "content", "kind", "got"),
    [
        ("config", {"tokenizer_class": "KoBert"}, "not-supported", "'KoBert'"),
        ("special_tokens_map", {"cls_token": "<s>"}, "not-supported", "'<s>'"),
        (
            *("special_tokens_map", {"additional_special_tokens": ["[E1]"]}),
            *("not-supported", r"'\[E1\]'"),
        ),
        ("added_tokens", {"covid": 4}, "not-supported", "it has 'covid'"),
        ("tokenizer_config", {"do_lower_case": "yes"}, "file-damaged", "'yes'"),
        ("tokenizer_config", {"strip_accents": 0}, "file-damaged", "strip_accents 0"),
        ("tokenizer_config", {"never_split": True}, "file-damaged", "not a file of Hu"),
        (
            *("bert_config", {"max_input_chars_per_word": 0}),
            *("file-damaged", "max_input_chars_per_word 0"),
        ),
    ],
)
def test_file_of_a_tokenizer_is_named(tmp_path, file, content, kind, got):
    write(tmp_path, **{file: content})
    with sources.refused(kind, tmp_path / f"{file}.json", got):
        tokenizer_files.read_tokenizer(str(tmp_path / "vocab.txt"))


def test_tokenizer_json_of_an_old_version_has_no_type_and_no_added_tokens(tmp_path):
    """As that of bert-base-uncased."""
    tokenizer = tiny.tokenizer_json()
    del tokenizer["model"]["type"], tokenizer["added_tokens"]
    path = write(tmp_path, *tiny.VOCAB[4:], tokenizer=tokenizer)
    assert tokenizer_files.read_tokenizer(path).settings.do_lower_case
    words = tokenizer_files.read_words(str(tmp_path / "tokenizer.json"))
    assert words == tiny.VOCAB


def test_vocabulary_of_another_form_is_refused(tmp_path):
    write(tmp_path, tokenizer={"model": {}})
    path = tmp_path / "tokenizer.json"
    with sources.refused(
        "file-damaged", path, "not a file of Hugging Face's tokenizers"
    ):
        tokenizer_files.read_words(str(path))


def test_configuration_without_weights_is_not_read(tmp_path):
    stale = {"do_lower_case": True, "tokenizer_class": "Other"}
    path = write(tmp_path, config={"do_lower_case": False}, bert_config=stale)
    (tmp_path / "model.safetensors").touch()
    assert not tokenizer_files.read_tokenizer(path).settings.do_lower_case


def template(*pieces):
    return [
        {"SpecialToken" if token[0] == "[" else "Sequence": {"id": token, "type_id": t}}
        for token, t in pieces
    ]


SINGLE = (("[CLS]", 0), ("A", 0), ("[SEP]", 0))


@pytest.mark.parametrize(
    ("part", "content", "got"),
    [
        ("model", {"type": "BPE"}, "model BPE"),
        ("normalizer", {"type": "Sequence"}, "normalizer Sequence"),
        ("normalizer", None, "normalizer None"),
        (
            "normalizer",
            {"type": "BertNormalizer", "clean_text": False},
            "clean_text False of the normalizer",
        ),
        ("pre_tokenizer", {"type": "Whitespace"}, "pre_tokenizer Whitespace"),
        ("post_processor", {"type": "RobertaProcessing"}, "post_processor Roberta"),
        (
            "post_processor",
            {"type": "BertProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]},
            "another post_processor",
        ),
        (
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": template(*SINGLE),
                "pair": template(*SINGLE, ("B", 0), ("[SEP]", 0)),
            },
            "another post_processor",
        ),
        ("added_tokens", [{"id": 9, "content": "covid"}], "added_tokens has 'covid'"),
        ("added_tokens", [{"id": 9}], "not a file of .* tokenizers .KeyError"),
        ("model", "WordPiece", "not a file of .* tokenizers .AttributeError"),
        ("post_processor", {"type": "BertProcessing"}, "not a file of .* tokenizers"),
    ],
)
def test_tokenizer_json_that_is_not_berts_is_refused(tmp_path, part, content, got):
    write(tmp_path, tokenizer={**tiny.tokenizer_json(), part: content})
    kind = "file-damaged" if got.startswith("not a file") else "not-supported"
    with sources.refused(kind, tmp_path / "tokenizer.json", got):
        tokenizer_files.read_tokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize("types", [1, 2])
def test_template_of_a_pair_fits_the_token_types(tmp_path, types):
    last = types - 1
    processor = {
        "type": "TemplateProcessing",
        "single": template(*SINGLE),
        "pair": template(*SINGLE, ("B", last), ("[SEP]", last)),
    }
    tokenizer = {**tiny.tokenizer_json(), "post_processor": processor}
    config = {"type_vocab_size": types}
    path = write(tmp_path, *tiny.VOCAB[4:], tokenizer=tokenizer, config=config)
    assert tokenizer_files.read_tokenizer(path).settings.do_lower_case


def test_files_of_a_tokenizer_that_contradict_each_other_are_refused(tmp_path):
    config = {"do_lower_case": False}
    write(tmp_path, tokenizer=tiny.tokenizer_json(), tokenizer_config=config)
    got = "do_lower_case True; .*tokenizer_config.json has False"
    with sources.refused("file-damaged", tmp_path / "tokenizer.json", got):
        tokenizer_files.read_tokenizer(str(tmp_path / "vocab.txt"))
