"""The limits of DataGate, and its tag in the schema."""

from __future__ import annotations

from pydantic import Field

from contracts.section import Settings

# The annotation tag that the schema gives to features whose texts must not be empty.
NOT_EMPTY_TAG = "not_empty"


class DataGateConfig(Settings):
    """Which data stop a run before training, and which only cause a warning.

    Attributes:
      max_interval: Largest half width of the 95 % interval around a threshold of the
        evaluator, on the rows that its metric counts. The default is 0.1: with fewer
        rows, models of 0.8 and of 0.9 cannot be told apart. Correlations, which range
        from -1 to 1, are allowed twice as much. A wider interval stops the run.
      max_contradictions: Largest share of rows, over all splits, that have the same
        texts as another row but a different label. Scores are different if they are
        more than a fifth of `label_range` apart. The default is 0.05: no model can
        learn both labels, so half of such rows are errors in any evaluation. More stop
        the run; fewer are a warning.
      max_word_f1: Largest F1 of a class of the training split, and of the others,
        that are predicted by whether a row has one word, or two words in a row. The
        default is 0.98: above it the label is in the texts, and a model learns only
        that. Unless these are all classes but one, or have half of the rows, it is a
        warning. 1 turns it off.
      warn_duplicates: Share of a split's rows that have the same texts as another row
        of the split and therefore count several times.
      warn_shared: Share of the rows of `evaluator.split` whose texts are also in the
        training split. The default is 0: a model can pass by memorizing them.
      warn_class_share: Share of a class in the training split below which a model may
        never predict it. With more than ten classes the limit is at most half of an
        equal share.
      warn_cut: Share of a split's rows that are longer than
        `preprocessing.max_seq_length`. The model does not see what is cut.
      warn_unreadable: Share of a split's rows that the encoder can hardly read: more
        than 40 % of their tokens are `[UNK]` or single letters within a word, as in
        Cyrillic text on an English encoder.
      warn_label_drift: Largest difference between two splits in the share of a class,
        or of the scores up to any value. The training split is compared with each other
        split and with the training split of the last span. Only a difference that
        chance explains with a probability below 0.001 is a warning.
      warn_length_drift: The same for the lengths: largest Wasserstein distance, as a
        share of the mean length of the reference split.
    """

    max_interval: float = Field(default=0.1, gt=0, le=1)
    max_contradictions: float = Field(default=0.05, ge=0, le=1)
    max_word_f1: float = Field(default=0.98, gt=0, le=1)
    warn_duplicates: float = Field(default=0.01, ge=0, le=1)
    warn_shared: float = Field(default=0.0, ge=0, le=1)
    warn_class_share: float = Field(default=0.05, ge=0, le=1)
    warn_cut: float = Field(default=0.01, ge=0, le=1)
    warn_unreadable: float = Field(default=0.05, ge=0, le=1)
    warn_label_drift: float = Field(default=0.1, ge=0, le=1)
    warn_length_drift: float = Field(default=0.2, ge=0, le=1)
