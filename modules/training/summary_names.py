"""Names in the summaries of a training, for their writers and readers.

The Model Garden's trainer names the losses and the learning rate
(`official/core/base_trainer.py`).
"""

TRAIN_DIRECTORY = "train"
VALIDATION_DIRECTORY = "validation"

TRAINING_LOSS = "training_loss"
LEARNING_RATE = "learning_rate"
VALIDATION_LOSS = "validation_loss"
