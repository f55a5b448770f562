"""Names in the summaries of a training, for those that write and those that read them.

The Model Garden's trainer names the losses and the learning rate
(`official/core/base_trainer.py`).
"""

TRAIN_DIRECTORY = "train"
VALIDATION_DIRECTORY = "validation"

TRAINING_LOSS = "training_loss"
LEARNING_RATE = "learning_rate"
VALIDATION_LOSS = "validation_loss"
