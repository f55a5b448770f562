"""Searches settings of the Trainer: the `tuner_fn` of TFX's Tuner."""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

import optuna
import tensorflow as tf
import tf_keras
from keras_tuner import HyperParameters
from keras_tuner.engine import base_tuner
from keras_tuner.engine import trial as keras_trial
from tfx.components.tuner.component import TunerFnResult

from contracts import fingerprint, wording
from contracts.errors import SettingError
from contracts.metrics import VALIDATION_LOSS
from contracts.settings.trainer import TrainerConfig
from contracts.settings.tuner import Range, TunerConfig, Values, merge
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from modules import environment
from modules.training import (
    checkpoints,
    experiment,
    proposals,
    run_fn,
    strategies,
    trials,
    warm_start,
)
from modules.training.loop import TrainingError
from modules.training.model_run import TrainingRecord, seed_directory
from modules.training.trials import Trial

logger = logging.getLogger(__name__)

# The trial is recorded, and the search continues. Any other error ends it.
_FAILURES = (TrainingError, MemoryError, tf.errors.ResourceExhaustedError)
_MAX_KILLS = 3  # of one trial; the kernel ends a process that is out of memory


class SearchError(Exception):
    """A search without a completed trial."""


def tuner_fn(fn_args: Any) -> TunerFnResult:
    """Returns the search; called by TFX's Tuner.

    Args:
      fn_args: `tfx.v1.components.FnArgs`. Its `custom_config` is that of the Trainer,
        with the sections `trainer` and `tuner` of the recipe.
    """
    environment.set_up()
    return TunerFnResult(tuner=SettingsTuner(fn_args), fit_kwargs={})


class SettingsTuner(base_tuner.BaseTuner):
    """What TFX's Tuner calls of a keras-tuner, in front of Optuna.

    A trial is a training in the directory of its checkpoint key, so the Trainer finds
    the training of the best settings finished. The record of the search is in a
    directory of the same kind, named after what is searched.

    Attributes:
      oracle: This object, which has the methods of an oracle that TFX calls.
      tuner_id: A name for TFX's log.
      max_trials: Number of trials.
    """

    # `BaseTuner.__init__` wants an oracle of keras-tuner with a state of its own.
    def __init__(self, fn_args: Any) -> None:
        settings = fn_args.custom_config
        self._fn_args = fn_args
        self._task = TaskConfig.model_validate(settings["task"])
        # More seeds would make each trial as many times as long.
        self._trainer = merge(
            TrainerConfig.model_validate(settings["trainer"]), {"seeds": 1}
        )
        config = TunerConfig.model_validate(settings["tuner"])
        self._space = config.parse_space(self._trainer)
        self._trials: list[Trial] = []
        self.oracle = self
        self.tuner_id = "optuna"
        self.max_trials = config.trials

    def search_space_summary(self, extended: bool = False) -> None:
        """Logs the searched settings."""
        names = ", ".join(self._space)
        logger.info("search of %s, %d trials", names, self.max_trials)

    def search(self, *_: Any, **__: Any) -> None:
        """Runs the trials that are left.

        Raises:
          SearchError: All trials failed.
          UsageError: The strategy trains in several processes.
          ValueError: Replicas cannot share a batch.
          DirectoryInUseError: Another job searches the same.
        """
        strategy = strategies.choose_strategy(self._trainer.strategy, self._trainer.tpu)
        self._check_strategy(strategy)
        directory = uris.join(self._fn_args.custom_config["checkpoints"], self._key())
        with checkpoints.hold_directory(directory) as check_lock:
            self._trials = trials.read(directory)
            while (started := self._start(strategy)) is not None:
                trial, proposed = started
                best = trials.find_best(self._trials)
                self._trials.append(dataclasses.replace(trial, kills=trial.kills + 1))
                trials.write(directory, self._trials)
                try:
                    trial = self._run(trial, proposed, strategy)
                finally:  # a signal leaves it running, but is no kill
                    check_lock()
                    self._trials[-1] = trial
                    trials.write(directory, self._trials)
                self._delete_weights([trial, *([best] if best else [])])
            trials.write(directory, self._trials)  # the last one may have been killed
        best = trials.find_best(self._trials)
        if best is None:
            raise SearchError(
                f"all {len(self._trials)} trials of tuner failed; the first: "
                f"{self._trials[0].reason}. Change trainer or tuner.space"
            )
        self._log(best, f"best of {len(self._trials)} trials")

    def get_best_hyperparameters(self, num_trials: int = 1) -> list[HyperParameters]:
        """Returns the settings of the best trials, as `{space, values, trials}`."""
        return [trial.hyperparameters for trial in self.get_best_trials(num_trials)]

    def get_best_trials(self, num_trials: int = 1) -> list[keras_trial.Trial]:
        """Returns the best completed trials."""
        best = trials.order(self._trials)[:num_trials]
        return [_as_keras_trial(trial, self._space, self._trials) for trial in best]

    def results_summary(self, num_trials: int = 10) -> None:
        """Logs nothing: each trial has been logged."""

    def _check_strategy(self, strategy: tf.distribute.Strategy) -> None:
        strategies.refuse_several_processes(strategy, "tuner")
        sizes = self._space.get("batch_size", [self._trainer.batch_size])
        if isinstance(sizes, Range) and strategy.num_replicas_in_sync > 1:
            raise SettingError(
                "tuner.space.batch_size",
                f"a range; {type(strategy).__name__} has "
                f"{strategy.num_replicas_in_sync} replicas",
                advice="list multiples of that number",
            )
        for size in () if isinstance(sizes, Range) else sizes:
            strategies.check_batches(
                strategy,
                batch_size=size,
                evaluation_batch_size=self._trainer.evaluation_batch_size,
            )

    def _key(self) -> str:
        """Returns the hash of what is searched, and with what; not of `trials`."""
        searched = self._trainer.model_dump(exclude=set(self._space))
        hyperparameters = fingerprint.of_json(
            {
                "trainer": TrainerConfig.model_validate(searched).fingerprint(),
                "space": self._space,
            }
        )
        return checkpoints.compute_key(
            self._fn_args.custom_config,
            hyperparameters,
            run_fn.split_patterns(self._fn_args),
            warm_start.find_base_model(self._fn_args.base_model),
        )

    def _start(
        self, strategy: tf.distribute.Strategy
    ) -> tuple[Trial, optuna.trial.Trial] | None:
        """Returns the next trial, or the one that was running; None at the end."""
        running = None
        if self._trials and self._trials[-1].state == "running":
            running = self._trials.pop()
            if running.kills >= _MAX_KILLS:
                times = wording.count(running.kills, "time")
                reason = f"the process was killed {times}; out of memory?"
                self._trials.append(
                    dataclasses.replace(running, state="failed", reason=reason)
                )
                running = None
        number = len(self._trials)
        if number >= self.max_trials:
            return None
        fixed = self._trainer.model_dump() if number == 0 else None
        proposed = proposals.propose(
            self._space,
            self._trials,
            trials=self.max_trials,
            seed=self._trainer.seed,
            fixed=running.values if running else fixed,
        )
        if proposed is None:
            logger.info("tuner.space has no settings that have not been tried")
            return None
        if running is not None:
            return running, proposed
        config = merge(self._trainer, proposed.params)
        directory = run_fn.find_directory(self._fn_args, config, strategy)
        trial = Trial(
            number=number,
            values=proposed.params,
            key=os.path.basename(directory),
            is_new=not files.exists(directory),
        )
        return trial, proposed

    def _run(
        self,
        trial: Trial,
        proposed: optuna.trial.Trial,
        strategy: tf.distribute.Strategy,
    ) -> Trial:
        """Trains with the settings of a trial, and returns it with the result.

        A training that was finished before takes no time, and is judged by its record.
        """
        text = f"trial {trial.number + 1} of {self.max_trials}"
        values = ", ".join(f"{name} {value}" for name, value in trial.values.items())
        logger.info("%s: %s", text, values, extra={"training": {"trial": text}})
        started = time.monotonic()
        config = merge(self._trainer, trial.values)
        directory = self._directory(trial)
        metric = self._task.metric
        judge = _Judge(proposed, metric, config.epochs)
        state: trials.State = "completed"
        value, loss, reason = None, None, ""
        try:
            params = run_fn.prepare(
                self._fn_args, self._task, config, strategy, directory
            )
            judge.steps_per_epoch = params.trainer.train_steps // config.epochs
            with checkpoints.hold_directory(directory) as check_lock:
                result = run_fn.train(
                    self._task,
                    experiment.with_seed(params, config.seed),
                    strategy,
                    seed_directory(directory, config.seed),
                    check_lock=check_lock,
                    after_evaluation=judge.prune,
                )
            # The last evaluation, or all of a training that was finished before.
            record = TrainingRecord(seed_directory(directory, config.seed), metric)
            judge.read(record)
            value, loss = result.metrics[metric], result.metrics[VALIDATION_LOSS]
        except optuna.TrialPruned:
            state, reason = "pruned", "below the median of the other trials"
            if not trials.measured(judge.evaluations.items()):
                reason = f"{metric} is NaN"
        except _FAILURES as error:
            state, reason = "failed", f"{type(error).__name__}: {str(error)[:500]}"
        # The graphs of the trial; its tensors go with them.
        tf_keras.backend.clear_session()
        gc.collect()
        ended = dataclasses.replace(
            trial,
            state=state,
            value=value,
            loss=loss,
            evaluations=sorted(judge.evaluations.items()),
            seconds=time.monotonic() - started,
            reason=reason,
        )
        if state == "completed":
            self._log(ended, text)
        else:
            level = logging.WARNING if state == "failed" else logging.INFO
            logger.log(level, "%s %s: %s", text, state, reason)
        return ended

    def _log(self, trial: Trial, text: str) -> None:
        values = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in trial.values.items()
        )
        note = f"{text}: {self._task.metric} {trial.score:.4f} with {values}"
        logger.info(note, extra={"training": {"note": note}})

    def _directory(self, trial: Trial) -> str:
        return uris.join(self._fn_args.custom_config["checkpoints"], trial.key)

    def _delete_weights(self, candidates: Iterable[Trial]) -> None:
        """Deletes trainings that this search started, except the best."""
        best = trials.find_best(self._trials)
        for trial in candidates:
            if trial.is_new and best is not None and trial.number != best.number:
                files.delete_directory(self._directory(trial))


class _Judge:
    """Reads the evaluations of a trial, and prunes it.

    Attributes:
      steps_per_epoch: Steps of an epoch of the trial.
      evaluations: Metric by tenths of an epoch, which trials with other batch sizes or
        numbers of epochs have in common.
    """

    def __init__(self, proposed: optuna.trial.Trial, metric: str, epochs: int) -> None:
        self._proposed = proposed
        self._epochs = epochs
        self._metric = metric
        self.steps_per_epoch = 1
        self.evaluations: dict[int, float | None] = {}

    def read(self, record: TrainingRecord) -> dict[int, float | None]:
        """Reads the evaluations of a training, and returns the new ones."""
        known = set(self.evaluations)
        for entry in record.evaluations:
            if entry.step:
                position = round(10 * entry.step / self.steps_per_epoch)
                self.evaluations[position] = entry.metrics[self._metric]
        return {at: self.evaluations[at] for at in self.evaluations.keys() - known}

    def prune(self, record: TrainingRecord) -> None:
        """Ends the training if its evaluations are below the median of other trials.

        Raises:
          TrialPruned: They are.
        """
        evaluations = self.read(record)
        if proposals.is_below_median(self._proposed, evaluations, self._epochs):
            raise optuna.TrialPruned


class _Found(HyperParameters):
    """The settings of a trial, which are stored with all trials of the search."""

    def __init__(self, trials_found: list[Trial]) -> None:
        super().__init__()
        self._trials = trials_found

    def get_config(self) -> dict[str, Any]:
        """Returns `{space, values, trials}`."""
        return {**super().get_config(), trials.TRIALS: trials.describe(self._trials)}


def _as_keras_trial(
    trial: Trial, space: dict[str, Values], all_trials: list[Trial]
) -> keras_trial.Trial:
    settings = _Found(all_trials)
    for name, values in space.items():
        if not isinstance(values, Range):
            settings.Choice(name, values)
            continue
        add = settings.Int if values.is_integer else settings.Float
        sampling = "log" if values.is_log else "linear"
        add(name, values.low, values.high, sampling=sampling)
    settings.values = dict(trial.values)
    described = keras_trial.Trial(
        settings, trial_id=str(trial.number), status=keras_trial.TrialStatus.COMPLETED
    )
    described.score = trial.score
    return described
