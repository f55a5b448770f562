"""A BERT of 2 layers with hidden size 16, and pairs that it can learn."""

import json
from pathlib import Path

import numpy as np
import yaml
from safetensors.numpy import save_file

LAYERS = 2
HIDDEN = 16
WORDS = [
    *("the", "a", "cat", "dog", "bird", "fish", "house", "tree", "river", "road"),
    *("sees", "likes", "eats", "finds", "big", "small", "red", "blue", "old", "new"),
    *(",", ".", "!", "?"),
]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing"]
CONFIG = {
    "vocab_size": len(VOCAB),
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "initializer_range": 0.02,
}
SPLITS = ("train", "eval", "test")
GRAPH = b"\x08\x01\x12\x05graph"
"""The bytes of a `SavedModel` with one graph."""


def tokenizer_json(words: list[str] = VOCAB, **model: object) -> dict:
    """Returns a `tokenizer.json` of an uncased BERT, with changes to its model."""
    ids = {token: index for index, token in enumerate(words)}
    return {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "[PAD]", "special": True}],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "cls": ["[CLS]", ids.get("[CLS]")],
            "sep": ["[SEP]", ids.get("[SEP]")],
        },
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
            **model,
        },
    }


def hugging_face_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns random weights under the names of a Hugging Face BERT."""
    random = np.random.default_rng(seed)
    inner = CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCAB), HIDDEN),
        "embeddings.position_embeddings.weight": (64, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
        "pooler.dense.weight": (HIDDEN, HIDDEN),
        "pooler.dense.bias": (HIDDEN,),
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes[f"{prefix}.attention.self.{name}.weight"] = (HIDDEN, HIDDEN)
            shapes[f"{prefix}.attention.self.{name}.bias"] = (HIDDEN,)
        for name, shape in (
            ("attention.output.dense", (HIDDEN, HIDDEN)),
            ("intermediate.dense", (inner, HIDDEN)),
            ("output.dense", (HIDDEN, inner)),
        ):
            shapes[f"{prefix}.{name}.weight"] = shape
            shapes[f"{prefix}.{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{prefix}.{name}.weight"] = (HIDDEN,)
            shapes[f"{prefix}.{name}.bias"] = (HIDDEN,)
    return {
        name: random.normal(scale=0.3, size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_encoder(directory: Path, seed: int = 0, **changes: object) -> Path:
    """Writes a Hugging Face folder of the tiny encoder.

    Args:
      directory: A new directory.
      seed: Seed of the weights.
      **changes: Tensors that replace the random ones; None leaves one out.
    """
    directory.mkdir(parents=True)
    tensors = {**hugging_face_tensors(seed), **changes}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    return directory


def pairs(rows: int, seed: int = 0) -> list[tuple[int, str, str]]:
    """Returns pairs whose label is 1 if both texts name the same animal."""
    random = np.random.default_rng(seed)
    labelled = []
    for _ in range(rows):
        first, second = random.choice(["cat", "dog", "bird", "fish"], size=2)
        if random.random() < 0.5:
            second = first
        verb, thing = random.choice(["sees", "likes"]), random.choice(["tree", "road"])
        texts = (f"The {first} {verb} the {thing}.", f"A {second} {verb} a {thing}!")
        labelled.append((int(first == second), *texts))
    return labelled


def write_tables(
    directory: Path, rows: int = 48, splits: tuple[str, ...] = SPLITS
) -> Path:
    """Writes the pairs as TSV splits."""
    directory.mkdir(parents=True)
    for seed, split in enumerate(splits):
        lines = ["idx\tlabel\tsentence1\tsentence2"]
        for index, (label, first, second) in enumerate(pairs(rows, seed)):
            lines.append(f"{index}\t{label}\t{first}\t{second}")
        (directory / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return directory


def write_config(
    path: Path, splits: tuple[str, ...] = SPLITS, **settings: object
) -> Path:
    """Writes a recipe of the tiny encoder and pairs, which any model passes.

    Args:
      path: The YAML file; its directory gets `encoder/` and `data/`.
      splits: The splits of the data.
      **settings: Top-level settings to add.
    """
    write_encoder(path.parent / "encoder")
    write_tables(path.parent / "data", splits=splits)
    recipe = {
        "name": "tiny",
        "data": {"source": "data"},
        "encoder": {"source": "encoder"},
        "preprocessing": {"max_seq_length": 32},
        "trainer": {"epochs": 1, "batch_size": 16, "learning_rate": 0.001},
        "evaluator": {
            "thresholds": {"accuracy": 0.0},
            "significance": 0.0,
        },
        "checks": {"linear_model": {"action": "warn"}},
        "output": "output",
        **settings,
    }
    path.write_text(yaml.safe_dump(recipe))
    return path


def write_transformed(
    path: Path,
    rows: int = 48,
    seed: int = 0,
    label: str = "class",
    first: int = 0,
    has_weights: bool = False,
) -> Path:
    """Writes Examples as Transform does: packed token ids of the pairs, unpadded.

    Args:
      path: The file, whose name ends in `.gz`.
      rows: Number of examples.
      seed: Seed of the pairs.
      label: `class` (0 or 1), `score` (0.0 or 5.0), or `labels`: whether both texts
        name the same animal, and whether the first one is a cat.
      first: The first id; ids count up from it.
      has_weights: Whether each example has a `weight`, 0.5 to 2.5.
    """
    from tests import records

    examples = []
    for index, (same, *texts) in enumerate(pairs(rows, seed)):
        segments = [[VOCAB.index(word) for word in _split(text)] for text in texts]
        examples.append(
            records.example(
                input_word_ids=[2, *segments[0], 3, *segments[1], 3],
                input_type_ids=[0] * (len(segments[0]) + 2)
                + [1] * (len(segments[1]) + 1),
                idx=[first + index],
                label={
                    "class": [same],
                    "score": [5.0 * same],
                    "labels": [same, int("cat" in texts[0])],
                }[label],
                **({"weight": [0.5 + index % 3]} if has_weights else {}),
            )
        )
    records.write(path, examples)
    return path


def _split(text: str) -> list[str]:
    return text.lower().replace(".", " .").replace("!", " !").split()


def build_experiment(directory: Path, task=None, rows: int = 48, **trainer):  # type: ignore[no-untyped-def]
    """Returns task, settings and experiment of a tiny training.

    Args:
      directory: A new directory for encoder and Examples.
      task: The task definition; None is MRPC's.
      rows: Examples of each split.
      **trainer: Settings of `TrainerConfig`.
    """
    import tensorflow as tf

    from contracts.packing import Packing
    from contracts.settings.trainer import TrainerConfig
    from contracts.task.definition import TaskConfig
    from modules.training import experiment

    task = task or TaskConfig()
    label = "score" if task.classes is None else "class"
    if task.kind:
        label = "labels"
    if not (directory / "encoder").exists():
        write_encoder(directory / "encoder")
    splits = {
        split: [str(write_transformed(directory / f"{split}.gz", rows, seed, label))]
        for seed, split in enumerate(("train", "eval"))
    }
    config = TrainerConfig(**{"epochs": 2, "batch_size": 8, "dropout": 0.0, **trainer})
    params = experiment.build_experiment(
        task,
        config,
        encoder=str(directory / "encoder"),
        packing=Packing(max_seq_length=32),
        splits=splits,
        strategy=tf.distribute.get_strategy(),
        dtype="float32" if config.mixed_precision == "auto" else config.mixed_precision,
    )
    return task, config, params
