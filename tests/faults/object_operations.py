"""The operations on an object store that must not lose what was there before."""

from __future__ import annotations

import posixpath
from typing import Any

import tensorflow as tf

from contracts import fingerprint
from contracts.records.evaluation import Verdict
from contracts.storage import files
from contracts.versions import served_versions
from ingest.examples import spans
from modules.encoder.directory import open_encoder
from modules.training import model_run
from pipeline.orchestrators import staging
from tests.faults.operations import (
    MODEL,
    Operation,
    best_step,
    check_best,
    check_checkpoint,
    record_best,
    restored_step,
    save_checkpoints,
)

# --- Versions of a model. ---


def _write_model(directory: str, name: str) -> None:
    for file, content in MODEL.items():
        files.write(f"{directory}/{file}", content + name.encode())


def _prepare_push(work: str) -> None:
    _write_model(f"{work}/first", "first")
    _write_model(f"{work}/second", "second")
    served_versions.push(f"{work}/first", f"{work}/served", "100")


def _push(work: str) -> None:
    served_versions.push(f"{work}/second", f"{work}/served", "200")


def _prepare_damaged_push(work: str) -> None:
    _prepare_push(work)
    _push(work)
    files.delete(f"{work}/served/200/assets/vocab.txt")


def _check_served(work: str) -> None:
    """Each version that a run would read is one of the pushed models."""
    complete = list(served_versions.list_complete(f"{work}/served"))
    assert complete[-1] == "100", complete
    models = {"100": "first", "200": "second"}
    for version in complete:
        path = f"{work}/served/{version}"
        assert not served_versions.verify(path), version
        for file, content in MODEL.items():
            assert files.read(f"{path}/{file}") == content + models[version].encode()


def _contents(directory: str) -> dict[str, bytes | None]:
    """Returns the files by name, without those that an outage kept from deletion."""
    return {
        name: files.read(f"{directory}/{name}")
        for name in files.list_files(directory)
        if not posixpath.basename(name).startswith(".incomplete-")
    }


def _served(work: str) -> Any:
    return _contents(f"{work}/served")


def _prepare_versions(work: str) -> None:
    _prepare_push(work)
    _push(work)
    files.write(f"{work}/served/100/{served_versions.CARD_FILE}", "of a person\nold\n")


def _write_card(work: str) -> None:
    """Keeps the first line of the last card, as the model card keeps fields."""
    served_versions.write_card(
        f"{work}/served/200", lambda last: (last or "").partition("\n")[0] + "\nnew\n"
    )


def _check_card(work: str) -> None:
    cards = [_read_card(work, version) for version in ("100", "200")]
    assert cards[0] == b"of a person\nold\n"
    assert cards[1] in (None, b"of a person\nnew\n")


def _read_card(work: str, version: str = "200") -> bytes | None:
    return files.read(f"{work}/served/{version}/{served_versions.CARD_FILE}")


# --- Records and inputs. ---


def _write_verdict(work: str, blessed: bool) -> None:
    verdict = Verdict(blessed=blessed, splits=["eval"], champion=None, metrics=[])
    verdict.write(work)


def _read_verdict(work: str) -> Any:
    verdict = Verdict.read(work)
    assert verdict
    return verdict.blessed


def _write_records(work: str) -> None:
    files.write(f"{work}/training/record.json", '{"evaluations": []}')
    files.write(f"{work}/training/seed-0/rows.tsv", "a row\n" * 1000)


def _check_copied(source: str, destination: str) -> None:
    """Each file of a copy is complete."""
    assert _contents(destination).items() <= _contents(source).items()


_BEAM = ("--runner=b",)


def _stage(work: str, arguments: tuple[str, ...] = _BEAM) -> None:
    copies = [
        (f"{work}/source/{name}", f"{work}/staged/{name}") for name in ("a", "b/c")
    ]
    beam_file = f"{work}/beam.json"
    # The locations, which are copied, are all that it reads of the inputs.
    inputs: Any = None
    staging.copy(staging.StagedInputs(inputs, copies, beam_file, arguments))


def _prepare_staging(work: str) -> None:
    for name in ("a", "b/c"):
        files.write(f"{work}/source/{name}", name * 1000)
    files.write_record(f"{work}/beam.json", {"arguments": ["--runner=a"]})


def _check_staged(work: str) -> None:
    _check_copied(f"{work}/source", f"{work}/staged")
    (runner,) = files.read_record(f"{work}/beam.json")["arguments"]
    assert runner in ("--runner=a", "--runner=b")


def _staged(work: str) -> Any:
    return _contents(f"{work}/staged"), files.read_record(f"{work}/beam.json")


_CONFIG = """{"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1,
"num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 8,
"type_vocab_size": 2}"""


def _write_encoder(work: str) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b"]
    contents = {
        "bert_config.json": _CONFIG,
        "vocab.txt": "\n".join(words) + "\n",
        "bert_model.ckpt.index": "index",
        "bert_model.ckpt.data-00000-of-00001": "data",
    }
    for name, content in contents.items():
        files.write(f"{work}/encoder/{name}", content)


def _read_encoder(work: str) -> Any:
    encoder = open_encoder(f"{work}/encoder")
    return encoder.files, fingerprint.of_file(encoder.vocab_file)


def _write_spans(work: str) -> None:
    for number in (1, 2, 3):
        files.write(f"{work}/span-{number}/train/0.gz", "records")


# --- Operations that lose data; the tests must find it. ---


def _move_by_hand(work: str) -> None:
    for path in tf.io.gfile.glob(f"{work}/a"):
        tf.io.gfile.copy(path, f"{work}/b", overwrite=True)
        tf.io.gfile.remove(path)


def _write_a(work: str) -> None:
    files.write(f"{work}/a", "content" * 1000)


def _read_either(work: str) -> Any:
    return files.read(f"{work}/a") or files.read(f"{work}/b")


def _check_either(work: str) -> None:
    assert _read_either(work) == b"content" * 1000


def _nothing(_: str) -> None:
    pass


PLANTED = {
    "a copy without a check": Operation(
        _write_a, _move_by_hand, _check_either, _nothing
    ),
    "a list that is empty after an error": Operation(
        _write_spans,
        lambda work: (
            sorted(tf.io.gfile.listdir(work)) if tf.io.gfile.isdir(work) else []
        ),
        _nothing,
        _nothing,
    ),
}

OPERATIONS = {
    "push": Operation(_prepare_push, _push, _check_served, _served),
    "push in place of a damaged version": Operation(
        _prepare_damaged_push, _push, _check_served, _served
    ),
    "choice of the next version": Operation(
        _prepare_push,
        lambda work: served_versions.choose_version(f"{work}/served", f"{work}/first"),
        _check_served,
        _nothing,
    ),
    "newest version": Operation(
        _prepare_versions,
        lambda work: served_versions.find_newest(f"{work}/served"),
        _nothing,
        _nothing,
    ),
    "copy of a version": Operation(
        _prepare_versions,
        lambda work: served_versions.copy(f"{work}/served/200", f"{work}/champion"),
        _check_served,
        lambda work: _contents(f"{work}/champion"),
    ),
    "model card": Operation(_prepare_versions, _write_card, _check_card, _read_card),
    "verdict": Operation(
        lambda work: _write_verdict(work, False),
        lambda work: _write_verdict(work, True),
        _read_verdict,
        _read_verdict,
    ),
    "checkpoint": Operation(
        lambda work: save_checkpoints(work, 1, 2),
        lambda work: save_checkpoints(work, 1, 2, 3),
        check_checkpoint,
        restored_step,
    ),
    "record of the best model": Operation(
        lambda work: record_best(work, 1),
        lambda work: record_best(work, 1, 2),
        check_best,
        best_step,
    ),
    "copy of a training's record": Operation(
        _write_records,
        lambda work: model_run.copy_records(f"{work}/training", f"{work}/run"),
        lambda work: _check_copied(f"{work}/training", f"{work}/run"),
        lambda work: _contents(f"{work}/run"),
    ),
    "staging": Operation(_prepare_staging, _stage, _check_staged, _staged),
    "encoder": Operation(_write_encoder, _read_encoder, _nothing, _nothing),
    "newest span": Operation(
        _write_spans,
        lambda work: spans.find_span(f"{work}/span-{{SPAN}}")[1].number,
        _nothing,
        _nothing,
    ),
}
