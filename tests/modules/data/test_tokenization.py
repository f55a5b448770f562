"""Tokens, against those of Hugging Face's `tokenizers`."""
# ruff: noqa: RUF001

import itertools
import unicodedata
from pathlib import Path

import hypothesis
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from hypothesis import strategies as st
from official.nlp.tools import tokenization as garden
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from contracts.packing import Packing
from contracts.tokenization import (
    TokenizerSettings,
    list_replacements,
    list_unstable,
)
from modules.data import preprocessing, tokenization
from modules.data.tokenization import BertTokenizer
from tests.nightly import nightly

pytestmark = pytest.mark.slow

DROPPED = {"Cc", "Cf", "Co", "Mn", "So"}  # "So" is U+FFFD
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNSTABLE = frozenset(list_unstable())
CORPUS = [
    # Latin, with its accents, ligatures and cases
    "Ich möchte Straße und Größe, ÄÖÜ! e\u0301tude Ångström ﬁn ¼ ² ½ ŒUVRE ǅ",
    "İSTANBUL Iğdır ısı İ i\u0307",
    "Tiếng Việt được viết bằng chữ Quốc ngữ. Đặng Hữu",
    "Zażółć gęślą jaźń; Łódź — šťastný Ǆ ß ẞ ŉ",
    # Greek
    "ΤΗΣ ΟΔΟΣ της οδός Ὀδυσσεύς ΐ Ά; Σ Σίσυφος ΣΑΣ ΜΑΣ µ Ω",
    # Cyrillic
    "Съешь ещё этих мягких французских булок, Ёлка Їжак й И\u0306",
    "Ђорђе Љубав ѝ Ґ Ӧ",
    # Armenian, Georgian, Cherokee, Coptic, Glagolitic, Deseret
    "Բարեւ աշխարհ։ ԵՒ և ՝ ՞",
    "გამარჯობა მსოფლიო Ⴀ Ა",
    "ᏣᎳᎩ ꭰꭱ ᏸ Ⲁⲁ ⰀⰁ 𐐀𐐨",
    # Hebrew, Arabic, Syriac, Thaana, N'Ko
    "שָׁלוֹם עוֹלָם־טוב ״מה״ יִ",
    "مَرْحَبًا بِالعَالَم، كيف؟ أإآؤئ ـــ ٣ ﷺ ﻻ",
    "ܫܠܡܐ ދިވެހި ߒߞߏ",
    # Devanagari, Bengali, Gurmukhi, Gujarati, and those of the south
    "नमस्ते दुनिया। क़ ज़ हिन्दी में है॥ १२३",
    "ওহে বিশ্ব। ড় য় কো ਸਤ ਸ੍ਰੀ ਅਕਾਲ ਲ਼ ગુજરાતી કેમ છો?",
    "வணக்கம் உலகம் கொ తెలుగు హలో ಕನ್ನಡ ಕೊ മലയാളം കൊ සිංහල කෝ",
    # Thai, Lao, Khmer, Burmese, Tibetan
    "สวัสดีชาวโลก ๆ ที่นี่ ກໍາ ສະບາຍດີ ភាសាខ្មែរ។ မင်္ဂလာပါ။ བོད་ཡིག །",
    # Ethiopic, Mongolian, Canadian syllabics, Javanese, Balinese
    "ሰላም፡ ልዑል። ᠮᠣᠩᠭᠣᠯ᠃ ᐃᓄᒃᑎᑐᑦ ꦗꦮ꧀ ᬩᬮᬶ᭞",
    # Chinese, Japanese, Korean
    "中文字符，混合English和数字123。「引号」𠀀𪜀𫝀𫠠豈金",
    "日本語のテキスト、カタカナ・ﾊﾝｶｸ ガ カ\u3099 ゝ々〆 ﷼ Ａｂｃ１２３！",
    "안녕하세요 세계! 가 각 ᄀ\u1161 한글ㄱ 값",
    # Punctuation, symbols, emoji
    "$5.00 + 3 = <8> ^_^ `code` | ~tilde~ a@b.c #tag 50% «quote» „low“ ‘q’ … – — ·¿¡",
    "👩\u200d👩\u200d👧 👍🏽 ☃\ufe0f 🇩🇪 ① Ⅷ ⅷ ™ © ° ♥ → ∑ € £ ¥ ₿ ×",
    # Control, format and white-space characters
    "the\x12cat soft\xadhyphen zero\u200bwidth join\u200der non\u200cjoiner \ufeffmark",
    "a\x00b NUL\x00 \x11 \x7f\x80\x85 line\nfeed tab\tcr\r\nend \x0b\x0c \x1c\x1d",
    "nbsp\xa0en\u2002thin\u2009line\u2028para\u2029ideo\u3000narrow\u202fmath\u205f",
    "\u200e\u200fleft\u202aright\u202c \ue000private\uf8ff \ufffd\ufffc \U000f0000",
    "\U000e0001\U000e0061tags \u180e \u2060 \u206a \U0001d173",
    # Long words
    "x" * 100 + " " + "x" * 101 + " " + "ส" * 45 + " " + "ส" * 100 + " " + "ส" * 101,
    "𐐀" * 100 + " " + "É" * 101 + " " + "e\u0301" * 100 + " " + "가" * 60,
    # Special tokens are text, and words of punctuation alone
    "[SEP] [CLS]x [MASK] [UNK] [unused1] ## ##s #",
    "",
    "   ",
]


def hugging_face(settings: dict, vocabulary: dict[str, int]) -> Tokenizer:
    """Returns the reference for values of `TokenizerSettings`."""
    tokenizer = Tokenizer(
        models.WordPiece(
            vocabulary,
            unk_token="[UNK]",
            max_input_chars_per_word=settings.get("max_input_chars_per_word", 100),
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings["do_lower_case"],
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.encode_special_tokens = True  # as text
    return tokenizer


def build_vocabulary(texts: list[str], settings: dict) -> list[str]:
    """Returns the characters of texts, and every second word as a whole.

    Characters that make the tokenizer slower are left out.
    """
    tokenizer = hugging_face(settings, {token: i for i, token in enumerate(SPECIAL)})
    words = {
        word
        for text in texts
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(
            tokenizer.normalizer.normalize_str(text)
        )
        if UNSTABLE.isdisjoint(word)
    }
    characters = sorted({c for word in words for c in word})
    short = [word for word in words if len(word) < 50]
    # Characters that are never at the start of a word, and never in one, differ.
    pieces = [*characters, *(f"##{character}" for character in characters[::2])]
    return list(dict.fromkeys([*SPECIAL, *pieces, *sorted(short)[::2]]))


def write_files(directory: Path, words: list[str]) -> str:
    path = directory / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in words))
    return str(path)


def differences(vocab_file: str, texts: list[str], reference: Tokenizer) -> list:
    ids = BertTokenizer(vocab_file).tokenize(tf.constant(texts)).to_list()
    expected = reference.encode_batch(texts, add_special_tokens=False)
    return [
        (text, encoding.tokens)
        for text, row, encoding in zip(texts, ids, expected, strict=True)
        if row != encoding.ids
    ]


SETTINGS = [
    {"do_lower_case": True},
    {"do_lower_case": False},
    {
        "do_lower_case": True,
        "strip_accents": False,
        "max_input_chars_per_word": 10**10,
    },
    {
        "do_lower_case": False,
        "strip_accents": True,
        "tokenize_chinese_chars": False,
        "max_input_chars_per_word": 20,
    },
    nightly({"do_lower_case": False, "strip_accents": True}),
    nightly({"do_lower_case": True, "tokenize_chinese_chars": False}),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting_gives_the_ids_of_hugging_face(tmp_path, settings):
    words = build_vocabulary(CORPUS, settings)
    reference = hugging_face(settings, {word: i for i, word in enumerate(words)})
    vocab_file = write_files(tmp_path, words)
    reference.save(str(tmp_path / "tokenizer.json"))
    assert differences(vocab_file, CORPUS, reference) == []


def test_newer_punctuation_in_a_vocabulary_gives_the_ids_of_hugging_face(tmp_path):
    settings = {"do_lower_case": True}
    words = build_vocabulary(CORPUS, settings)
    newer = UNSTABLE.intersection("".join(CORPUS))
    assert newer
    words += sorted(newer)
    reference = hugging_face(settings, {word: i for i, word in enumerate(words)})
    assert differences(write_files(tmp_path, words), CORPUS, reference) == []


@pytest.mark.parametrize("token", ["new york", "\x01"])
def test_odd_token_of_a_vocabulary_gives_the_ids_of_hugging_face(tmp_path, token):
    settings = {"do_lower_case": True}
    texts = ["new york", "new  york", f"new {'x' * 101} york", "new\x01york"]
    words = [*build_vocabulary(texts, settings), token]
    reference = hugging_face(settings, {word: i for i, word in enumerate(words)})
    assert differences(write_files(tmp_path, words), texts, reference) == []


def test_newer_punctuation_is_not_left_to_the_op_that_serves(uncased):
    """Versions of the op differ in whether they split there."""
    tokenizer, vocab_file, *_ = uncased
    replacements = dict(list_replacements(TokenizerSettings(True, True)))
    characters = sorted(UNSTABLE)
    ids = tokenizer.tokenize(tf.constant([f"a{c}b" for c in characters])).to_list()
    unknown = Path(vocab_file).read_text().splitlines().index("[UNK]")
    for character, row in zip(characters, ids, strict=True):
        is_word = replacements.get(character, character).startswith(" ")
        assert len(row) == (3 if is_word else 1), character
        assert row[len(row) // 2] == unknown, character


@pytest.mark.nightly
@pytest.mark.parametrize("flags", itertools.product([True, False], repeat=3), ids=str)
def test_every_character_is_normalized_as_by_hugging_face(flags):
    """Apart from those that are new or of another category since Unicode 3.2."""
    settings = TokenizerSettings(*flags)
    normalizer = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(tokenization.build_normalizer(settings, False))
    )
    reference = normalizers.BertNormalizer(
        handle_chinese_chars=settings.tokenize_chinese_chars,
        strip_accents=settings.strip_accents,
        lowercase=settings.do_lower_case,
    )
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{character}b" for character in characters]
    differing = {
        character
        for character, text, normalized in zip(
            characters, texts, normalizer.normalize(texts).numpy(), strict=True
        )
        if [word for word in normalized.decode().split(" ") if word]
        != [
            word
            for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(
                reference.normalize_str(text)
            )
        ]
    }
    assert not {
        character
        for character in differing
        if unicodedata.ucd_3_2_0.category(character)
        == unicodedata.category(character)
        != "Cn"
    }


def test_offsets_are_those_of_the_characters_in_the_text(tmp_path):
    settings = {"do_lower_case": True}
    words = build_vocabulary(CORPUS, settings)
    reference = hugging_face(settings, {word: i for i, word in enumerate(words)})
    tokenizer = BertTokenizer(write_files(tmp_path, words), tf.string)
    ids = tokenizer.tokenize(tf.constant(CORPUS)).to_list()
    tokens, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(CORPUS))
    assert tokens.to_list() == ids
    for text, row_starts, row_ends, encoding in zip(
        CORPUS,
        starts.to_list(),
        ends.to_list(),
        reference.encode_batch(CORPUS, add_special_tokens=False),
        strict=True,
    ):
        content = text.encode()
        for start, end, (first, last) in zip(
            row_starts, row_ends, encoding.offsets, strict=True
        ):
            assert len(content[:start].decode()) == first, text
            # Here a token ends where the next character that is kept starts.
            rest = content[:end].decode()[last:]
            assert {unicodedata.category(c) for c in rest} <= DROPPED, text


@pytest.fixture(scope="module")
def uncased(tmp_path_factory):
    """A tokenizer, its vocabulary, and Hugging Face's and the Model Garden's."""
    settings = {"do_lower_case": True}
    words = build_vocabulary(CORPUS, settings)
    vocab_file = write_files(tmp_path_factory.mktemp("uncased"), words)
    ids = {word: index for index, word in enumerate(words)}
    return (
        BertTokenizer(vocab_file),
        vocab_file,
        hugging_face(settings, ids),
        garden.FullTokenizer(vocab_file, do_lower_case=True),
    )


def is_old(character):
    """Returns whether all versions of Unicode give a character the same category."""
    category = unicodedata.category(character)
    return unicodedata.ucd_3_2_0.category(character) == category != "Cn"


CHARACTERS = st.sampled_from(sorted(set("".join(CORPUS)))) | st.characters(
    exclude_categories=["Cs"]
)
PROPERTIES = hypothesis.settings(
    deadline=None,
    derandomize=True,
    max_examples=10,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)


@PROPERTIES
@hypothesis.given(texts=st.lists(st.text(CHARACTERS, max_size=40), min_size=1))
def test_any_text_has_ids_offsets_and_a_length_within_their_bounds(uncased, texts):
    tokenizer, vocab_file, *_ = uncased
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(texts))
    assert tokenizer.tokenize(tf.constant(texts)).to_list() == ids.to_list()
    size = len(Path(vocab_file).read_text().splitlines())
    assert all(0 <= token < size for row in ids.to_list() for token in row)
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        content = text.encode()
        assert first == sorted(first)
        for start, end in zip(first, last, strict=True):
            assert 0 <= start < end <= len(content)
            assert content[start:end].decode()  # of whole characters
    for text, row in list(zip(texts, ids.to_list(), strict=True))[:3]:
        assert tokenizer.tokenize(tf.constant([text])).to_list() == [row]
    for segments in ([texts], [texts, texts[::-1]]):
        inputs = preprocessing.text_to_inputs(
            [tf.constant(segment) for segment in segments],
            vocab_file,
            Packing(max_seq_length=16),
        )
        lengths = inputs["input_word_ids"].row_lengths().numpy()
        assert lengths.min() >= 1 + len(segments)
        assert lengths.max() <= 16


@PROPERTIES
@hypothesis.given(
    texts=st.lists(st.text(CHARACTERS.filter(is_old), max_size=40), min_size=1)
)
def test_any_text_has_the_ids_of_hugging_face_and_the_model_garden(uncased, texts):
    tokenizer, _, reference, original = uncased
    ids = tokenizer.tokenize(tf.constant(texts)).to_list()
    encodings = reference.encode_batch(texts, add_special_tokens=False)
    for text, row, encoding in zip(texts, ids, encodings, strict=True):
        assert row == encoding.ids, text
        if any(unicodedata.category(character) == "Co" for character in text):
            continue  # the Model Garden's keeps the characters of private use
        expected = original.convert_tokens_to_ids(original.tokenize(text))
        assert row == expected, text
