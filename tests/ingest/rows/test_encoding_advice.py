"""Advice about bytes that are not of the encoding of a file."""

import codecs
import re

import pytest

from contracts.settings.data import DataConfig
from ingest.rows import row_file
from ingest.rows.encoding_advice import advise
from ingest.rows.row_errors import FileError, RowError
from ingest.rows.row_file import RowFile
from tests.ingest.rows.reading import read
from tests.refusals import refused

TWEETS = ["good \N{THUMBS UP SIGN} day", "late \N{PENSIVE FACE} again", "plain"] * 20
CUT = b"bad " + "\N{THUMBS UP SIGN}".encode()[:3]
CP1252 = "`data.encoding=cp1252`"
HALF_WIDTH = "text\n" + "この映画はおもしろい。ﾃﾚﾋﾞで見た\n" * 9
SENTENCES = {
    "cp1252": "Das Café ist schön und “größer” als früher",
    "cp1251": "Фильм был очень хорошим",
    "shift_jis": "この映画はとても、おもしろい。",
    "gb18030": "这部电影非常好看。",
}


def encoding_error(path, content, **settings):
    """Returns the first error of a file with the texts `content`, as bytes."""
    path.write_bytes(b"text\n" + b"\n".join(content) + b"\n")
    return next(
        str(row) for _, row in read(path, **settings) if isinstance(row, RowError)
    )


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
@pytest.mark.parametrize("tweets", [TWEETS, ["plain"] * 60])
def test_few_cut_characters_in_utf_8_are_counted_and_left_out(tmp_path, name, tweets):
    content = [*(tweet.encode() for tweet in tweets), CUT, CUT]
    error = encoding_error(tmp_path / name, content)
    assert "with 2 characters cut or damaged" in error
    assert "`data.on_bad_rows=skip`" in error
    assert "`data.encoding" not in error
    rows = read(tmp_path / name)
    assert [number for number, row in rows if isinstance(row, RowError)] == [62, 63]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "shift_jis"])
@pytest.mark.parametrize(("bad", "but"), [([], ""), ([CUT], ", but for 1 character")])
def test_utf_8_that_is_read_as_another_encoding_is_recognized(
    tmp_path, encoding, bad, but
):
    content = [*(tweet.encode() for tweet in TWEETS), "“so”".encode(), *bad]
    error = encoding_error(tmp_path / "in.csv", content, encoding=encoding)
    assert f"use `data.encoding=utf-8`: the file is UTF-8{but}" in error


@pytest.mark.parametrize(
    ("wrong", "encoding"),
    [
        *(("utf-8", encoding) for encoding in SENTENCES),
        *(("ascii", encoding) for encoding in SENTENCES),
        ("cp1252", "shift_jis"),
        ("shift_jis", "cp1252"),
        ("shift_jis", "cp1251"),
    ],
)
def test_advice_about_the_encoding_leads_to_one_that_reads_the_file(
    tmp_path, wrong, encoding
):
    text = SENTENCES[encoding].encode(encoding)
    content = [f"row {n}".encode() + text for n in range(9)]
    error = encoding_error(tmp_path / "in.csv", content, encoding=wrong)
    (advised,) = re.findall(r"`data\.encoding=(\S+)`", error)
    rows = [row for _, row in read(tmp_path / "in.csv", encoding=advised)]
    assert rows == [{"text": f"row {n}{SENTENCES[encoding]}"} for n in range(9)]


@pytest.mark.parametrize(
    "text",
    [
        "don\N{RIGHT SINGLE QUOTATION MARK}t",
        "größe",
        "a £5 note",
        "für «alle»",
        "NAÏVE",
    ],
)
def test_few_letters_between_those_of_ascii_are_western(tmp_path, text):
    # Japanese and Chinese encodings read them, too, as one character in a word.
    error = encoding_error(tmp_path / "in.csv", [text.encode("cp1252")])
    assert "`data.encoding=cp1252`" in error


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl"])
@pytest.mark.parametrize("text", ["Grüße", "plain"])
def test_utf_16_without_a_byte_order_mark_comes_with_advice(tmp_path, name, text):
    path = tmp_path / name
    start, end = ('{"text": "', '"}') if name == "in.jsonl" else ("", "")
    lines = "".join(f"{start}{text}{end}\n" for _ in range(20))
    content = lines if start else f"text\n{lines}"
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        path.write_bytes(content.encode(encoding))
        ((_, error),) = read(path, encoding="utf-16")
        assert isinstance(error, FileError)
        assert f"`data.encoding={encoding}`" in str(error)
        assert "on_bad_rows" not in str(error)
        rows = [row for _, row in read(path, encoding=encoding)]
        assert rows == [{"text": text}] * 20


def test_dialect_of_utf_16_without_a_byte_order_mark_is_refused_with_advice(tmp_path):
    (tmp_path / "in.csv").write_text("text\nplain\n")
    file = RowFile(str(tmp_path / "in.csv"), "csv", DataConfig(encoding="utf-16"))
    advice = re.compile("`data.encoding=utf-8`")
    with refused("E-file-damaged", setting=file.path, advice=advice):
        file.describe_dialect()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_damaged_unit_of_utf_16_is_counted_and_not_left_out(tmp_path, encoding):
    text = "text\n" + "plain\n" * 400
    content = text.encode("utf-16") + b"\x00\xdc" + text.encode("utf-16-le")
    (tmp_path / "in.csv").write_bytes(content)
    *_, (_, error) = read(tmp_path / "in.csv", encoding=encoding)
    assert isinstance(error, FileError)
    assert "the file has 1 damaged place; correct" in str(error)
    assert "`" not in str(error)


def test_few_bytes_that_are_not_ascii_may_be_damage(tmp_path):
    content = [b"a plain row"] * 400 + [b"cut \xf0", b"cut \xf0 too"]
    error = encoding_error(tmp_path / "in.csv", content)
    assert "`data.encoding=cp1252`" in error
    assert "or the file is utf-8, with 2 damaged places" in error
    assert "`data.on_bad_rows=skip` leaves their rows out" in error
    many = encoding_error(tmp_path / "in.csv", [*content, *content[-2:] * 50])
    assert "damaged" not in many


def test_advice_is_found_once_for_all_passes(tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_bytes(b"text\nplain\ncaf\xe9\n")
    calls = []

    def spy(*args, **options):
        calls.append(args)
        return advise(*args, **options)

    monkeypatch.setattr(row_file, "advise", spy)
    file = RowFile(str(tmp_path / "in.csv"), "csv")
    first, second = ([str(row) for _, row in file.read()] for _ in range(2))
    assert "`data.encoding=cp1252`" in first[1]
    assert first == second
    assert len(calls) == 1


def test_few_bad_bytes_of_another_encoding_are_counted(tmp_path):
    content = [SENTENCES["cp1252"].encode("cp1252")] * 99 + [b"bad \x9d\x8d one"]
    error = encoding_error(tmp_path / "in.csv", content, encoding="cp1252")
    assert "the file has 2 damaged places" in error
    assert "`data.on_bad_rows=skip`" in error
    assert "`data.encoding" not in error


def test_only_the_first_byte_of_another_encoding_comes_with_advice(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": "é"}\n{"a": "é"}\n', encoding="cp1252")
    (_, first), (_, second) = read(path)
    assert "`data.encoding=cp1252`" in str(first)
    assert str(second) == "column 8: the byte 0xe9 is not utf-8"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("in.jsonl", '{"text": "größe"}'.encode("cp1252"), CP1252),
        (
            "in.csv",
            "größe,label\na,1\n".encode("cp1252"),
            f"the header: column 3: .*{CP1252}",
        ),
        ("in.csv", HALF_WIDTH.encode("shift_jis"), "`data.encoding=shift_jis`"),
        (
            *("in.csv", b"text," + CUT + b"\na,1\n"),
            "with 1 character cut or damaged; correct(?!.*on_bad_rows)",
        ),
    ],
    ids=["no end", "header", "half-width letters in Japanese", "cut header"],
)
def test_first_error_comes_with_advice(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    (_, error), *_ = read(tmp_path / name)
    assert re.search(reason, str(error))


@pytest.mark.parametrize("name", ["base64", "idna", "punycode", "undefined"])
def test_codec_of_python_that_decodes_no_files_is_refused_as_encoding(name):
    with pytest.raises(ValueError, match="Python's encodings, such as utf"):
        DataConfig(encoding=name)


@pytest.mark.parametrize("name", ["utf-16", "utf-32-be", "utf-7", "euc_kr", "cp037"])
def test_codec_of_python_that_decodes_files_is_an_encoding(name):
    assert DataConfig(encoding=name).encoding == codecs.lookup(name).name
