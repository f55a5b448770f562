"""Writes a pushed model as the folder that `portable.folder` describes."""

from __future__ import annotations

from pathlib import Path

from contracts.errors import UsageError
from contracts.records.evaluation import Evaluation
from contracts.storage import files, uris
from contracts.versions import exported_model, served_versions
from modules.export import tokenizer_json
from modules.export.onnx import bert_graph
from modules.export.onnx.onnx_file import OPSET
from modules.export.pushed_model import PushedModel
from portable import folder
from portable.characters import CharacterTable
from portable.folder import PortableDescription


def write(
    pushed: PushedModel,
    directory: Path,
    *,
    is_int8: bool = False,
    metrics: dict[str, float] | None = None,
) -> list[str]:
    """Writes all files; the manifest follows those that it lists.

    The card is not in the manifest, as in a pushed version: people edit it.

    Args:
      pushed: The model.
      directory: An empty directory.
      is_int8: Whether to write the ONNX file with weights in int8, too.
      metrics: Those at the gate by name; None reads them from the version.

    Returns:
      The names of the ONNX files.

    Raises:
      UsageError: The evaluation of the version is damaged.
    """
    if metrics is None:
        metrics = _read_metrics(pushed)
    bert_graph.write(pushed, directory / folder.ONNX_FILE)
    names = [folder.ONNX_FILE]
    if is_int8:
        bert_graph.write(pushed, directory / folder.INT8_FILE, is_int8=True)
        names.append(folder.INT8_FILE)
    tokenizer = tokenizer_json.describe(pushed)
    files.write_json(str(directory / folder.TOKENIZER_FILE), tokenizer)
    CharacterTable.of(pushed.tokenizer).write(str(directory))
    described = {
        # They have the same names in a pushed version.
        name: pushed.description[name]
        for name in PortableDescription.model_fields
        if name in pushed.description
    }
    PortableDescription(
        **{
            **described,
            "packing": pushed.packing,
            # The table of embeddings may be longer.
            "vocab_size": len(pushed.words),
            "opset": OPSET,
            "version": pushed.version
            if served_versions.is_version(pushed.version)
            else "",
            "digest": exported_model.identity(pushed.directory),
            "metrics": metrics,
        }
    ).write(str(directory))
    _copy(pushed, served_versions.EXAMPLES_FILE, directory / folder.EXAMPLES_FILE)
    served_versions.write_manifest(str(directory))
    copy_card(pushed, directory)
    return names


def copy_card(pushed: PushedModel, directory: Path) -> None:
    """Copies the card of a version, if it has one."""
    _copy(pushed, served_versions.CARD_FILE, directory / folder.CARD_FILE)


def _read_metrics(pushed: PushedModel) -> dict[str, float]:
    try:
        content = served_versions.read_evaluation(pushed.directory)
        if content is None:
            return {}
        metrics = Evaluation.model_validate(content).metrics
    except files.FormatError:
        raise
    except ValueError as error:
        raise UsageError(
            uris.join(pushed.directory, served_versions.EVALUATION_FILE),
            f"cannot be read: {error}",
            advice="restore it, or delete it to export no metrics",
            name="E-record-damaged",
        ) from error
    return {name: estimate.value for name, estimate in metrics.items()}


def _copy(pushed: PushedModel, name: str, path: Path) -> None:
    """Copies a file that a version may lack."""
    content = files.read(uris.join(pushed.directory, name))
    if content is not None:
        files.write(str(path), content)
