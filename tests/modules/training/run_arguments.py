"""Transformed Examples, and the arguments with which TFX's Trainer calls `run_fn`."""

import shutil
import types

from tests import exported, tiny


def transform(root, kind, texts, labels, splits, **packing):
    """Writes the encoder, Transform's graph, and the same Examples for each split.

    `packing` is `max_seq_length`, `keep` and `long_text`, if not the defaults.
    """
    vocab_file = str(tiny.write_encoder(root / "encoder") / "vocab.txt")
    rows = exported.rows_of(exported.TASKS[kind], texts, labels, vocab_file)
    exported.run_transform(root, kind, rows, vocab_file, **packing)
    (examples,) = root.glob("examples*.gz")
    for split in splits:
        folder = root / "transformed" / f"Split-{split}"
        folder.mkdir(parents=True)
        shutil.copy(examples, folder / "examples.gz")


def build(root, directory, task, splits, base_model=None, **trainer):
    """Returns the arguments of a training of 2 epochs in batches of 8.

    `root` is the directory that `transform` filled, `directory` that of the outputs.
    """
    patterns = {
        split: str(root / "transformed" / f"Split-{split}" / "*") for split in splits
    }
    settings = {
        "epochs": 2,
        "batch_size": 8,
        "learning_rate": 3e-3,
        "strategy": "one_device",
        "mixed_precision": "float32",  # `auto` depends on the machine
        "steps_per_loop": 1,  # a point of the curves for each step
        **trainer,
    }
    return types.SimpleNamespace(
        train_files=[patterns["train"]],
        eval_files=[patterns[split] for split in splits if split != "train"],
        transform_output=str(root / "graph"),
        serving_model_dir=str(directory / "serving"),
        model_run_dir=str(directory / "model_run"),
        base_model=base_model and str(base_model),
        hyperparameters=settings,
        custom_config={
            "task": task.model_dump(),
            "packing": {"max_seq_length": exported.MAX_SEQ_LENGTH},
            "encoder": str(root / "encoder"),
            "encoder_fingerprint": "1",
            "code_fingerprint": "2",
            "serving_precision": "float32",
            "checkpoints": str(directory / "training"),
        },
    )
