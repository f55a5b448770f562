"""Vertex AI Vizier instead of Optuna: proposes settings, and judges a trial.

Imported only if `tuner.service` is `vizier`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from google.api_core import exceptions
from google.api_core.retry import Retry
from google.auth.exceptions import GoogleAuthError
from google.cloud import aiplatform_v1

from contracts import metrics
from contracts.errors import UsageError
from contracts.settings.tuner import Range, Values, contains
from modules.training.trials import Trial, measured

_METRIC = "score"  # an id has no blanks, which the name of a class may have
_CLIENT = "pipeline"  # one job searches at a time: its pending trial is returned again
_CALL_SECONDS = 60.0
_OPERATION_SECONDS = 900.0
_RETRY = Retry(timeout=_CALL_SECONDS)  # of calls that change nothing
_ENDED = (
    aiplatform_v1.Trial.State.SUCCEEDED,
    aiplatform_v1.Trial.State.INFEASIBLE,
)


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A trial of the service.

    Attributes:
      name: Its resource name.
      params: The values of the searched settings.
    """

    name: str
    params: dict[str, Any]


class Study:
    """A study of Vertex AI Vizier, with the functions of `proposals`.

    The record of the search decides which trials there are: the study gets those that
    it lacks. So a search whose study was deleted continues in a new one.

    Args:
      project: ID of the Google Cloud project.
      region: Region of the study.
      name: The key of the search. A study of this name is resumed.
      space: The values of each setting.
      is_new: Whether the search has no record. A study of this name is deleted then:
        it would propose none of its settings again.

    Raises:
      UsageError: The service is unavailable, or refuses the credentials.
    """

    def __init__(
        self,
        project: str,
        region: str,
        name: str,
        space: Mapping[str, Values],
        *,
        is_new: bool = False,
    ) -> None:
        self._where = f"project {project}, region {region}"
        self._space = space
        self._has_result = False  # of a trial before the proposed one
        with self._explained():
            self._client = connect(region)
            parent = self._client.common_location_path(project, region)
            study = aiplatform_v1.Study(
                display_name=name, study_spec=_study_spec(space)
            )
            create = {"parent": parent, "study": study}
            lookup = {"parent": parent, "display_name": name}
            try:
                created = self._client.create_study(create, timeout=_CALL_SECONDS)
            except exceptions.AlreadyExists:
                created = self._client.lookup_study(
                    lookup, retry=_RETRY, timeout=_CALL_SECONDS
                )
                if is_new:
                    self._client.delete_study(name=created.name, timeout=_CALL_SECONDS)
                    created = self._client.create_study(create, timeout=_CALL_SECONDS)
            self._name = created.name

    def propose(
        self, ended: list[Trial], fixed: Mapping[str, Any] | None = None
    ) -> Suggestion | None:
        """Proposes the settings of the next trial; see `proposals.propose`."""
        self.complete(ended)
        self._has_result = any(trial.has_result for trial in ended)
        settings = {
            name: fixed[name]
            for name, values in self._space.items()
            if fixed and name in fixed and contains(values, fixed[name])
        }
        suggestion = self._suggest(settings)
        if suggestion is not None and not settings.items() <= suggestion.params.items():
            raise UsageError(
                f"the study {self._name} has a pending trial with other settings than "
                f"{_list(settings)}; delete the study to search from the beginning",
                "E-vizier-study",
            )
        return suggestion

    def is_below_median(
        self, trial: Suggestion, evaluations: Mapping[int, float | None], epochs: int
    ) -> bool:
        """Reports evaluations, and returns whether to prune the trial.

        See `proposals.is_below_median`.
        """
        with self._explained():
            known = self._client.get_trial(
                name=trial.name, retry=_RETRY, timeout=_CALL_SECONDS
            )
            steps = {entry.step_count for entry in known.measurements}
            new = measured(evaluations.items())
            # A trial that was interrupted reports its first evaluations again.
            for position in sorted(new.keys() - steps):
                request = {
                    "trial_name": trial.name,
                    "measurement": _measurement(position, new[position]),
                }
                self._client.add_trial_measurement(
                    request=request, timeout=_CALL_SECONDS
                )
            if max(evaluations, default=0) < 5 * epochs:
                return False
            if not new and not steps:  # the service judges only what was measured
                return self._has_result
            operation = self._client.check_trial_early_stopping_state(
                request={"trial_name": trial.name}, timeout=_CALL_SECONDS
            )
            return bool(operation.result(_OPERATION_SECONDS).should_stop)

    def complete(self, ended: list[Trial]) -> None:
        """Reports the trials that have ended, unless the study has their results."""
        with self._explained():
            known = self._client.list_trials(
                request={"parent": self._name}, retry=_RETRY, timeout=_CALL_SECONDS
            )
            names = [(self._params(trial), trial.name, trial.state) for trial in known]
        for trial in ended:
            matching = [entry for entry in names if entry[0] == trial.values]
            if any(state in _ENDED for _, _, state in matching):
                continue
            name = matching[0][1] if matching else self._add(trial.values)
            self._finish(name, _result(trial))

    def _finish(self, name: str, result: Mapping[str, Any]) -> None:
        with self._explained():
            self._client.complete_trial(
                request={"name": name, **result}, timeout=_CALL_SECONDS
            )

    def _add(self, values: Mapping[str, Any]) -> str:
        """Adds a trial of the record, and returns its name."""
        added = self._suggest(values, client=f"{_CLIENT}-record")
        if added is None or added.params != values:
            if added is not None:  # it would stay pending
                reason = "not the recorded settings"
                result = {"trial_infeasible": True, "infeasible_reason": reason}
                self._finish(added.name, result)
            raise UsageError(
                f"the study {self._name} has no place for a recorded trial, "
                f"{_list(values)}; "
                "delete the study to search from the beginning",
                "E-vizier-study",
            )
        return added.name

    def _suggest(
        self, fixed: Mapping[str, Any], client: str = _CLIENT
    ) -> Suggestion | None:
        """Returns the client's pending trial or a new one; None if all were proposed.

        Args:
          fixed: Settings that a new one has.
          client: Whom the service gives the trial to.
        """
        parameters = [
            aiplatform_v1.Trial.Parameter(parameter_id=name, value=value)
            for name, value in fixed.items()
        ]
        with self._explained():
            operation = self._client.suggest_trials(
                request={
                    "parent": self._name,
                    "suggestion_count": 1,
                    "client_id": client,
                    "contexts": [{"parameters": parameters}] if parameters else [],
                },
                timeout=_CALL_SECONDS,
            )
            suggested = operation.result(_OPERATION_SECONDS).trials
        for trial in suggested:
            return Suggestion(trial.name, self._params(trial))
        return None

    def _params(self, trial: aiplatform_v1.Trial) -> dict[str, Any]:
        """Returns the values of a trial as settings."""
        values = {entry.parameter_id: entry.value for entry in trial.parameters}
        params: dict[str, Any] = {}
        for name, allowed in self._space.items():
            value = values[name]
            if not isinstance(allowed, Range):  # 3.0 of [2, 3, 4] is 3
                params[name] = allowed[allowed.index(value)]
            else:
                params[name] = int(value) if allowed.is_integer else value
        return params

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (
            exceptions.GoogleAPIError,
            GoogleAuthError,
            concurrent.futures.TimeoutError,  # of an operation
        ) as error:
            raise UsageError(
                f"tuner.service is vizier, but Vertex AI Vizier of {self._where} "
                f"failed: {type(error).__name__}: {error}. Check vertex.project, "
                "vertex.region, the network and the credentials (`gcloud auth "
                "application-default login`, or a service account of the job with "
                "roles/aiplatform.user); the same command resumes the search. Or set "
                "tuner.service to optuna",
                "E-vizier-unavailable",
            ) from error


def _study_spec(space: Mapping[str, Values]) -> aiplatform_v1.StudySpec:
    """Returns the space, what is maximized, and how trials are stopped."""
    spec = aiplatform_v1.StudySpec
    return spec(
        metrics=[{"metric_id": _METRIC, "goal": spec.MetricSpec.GoalType.MAXIMIZE}],
        parameters=[_parameter(name, values) for name, values in space.items()],
        # The same settings have the same result, and are not proposed again.
        observation_noise=spec.ObservationNoise.LOW,
        measurement_selection_type=spec.MeasurementSelectionType.BEST_MEASUREMENT,
        median_automated_stopping_spec={"use_elapsed_duration": False},
    )


def _parameter(name: str, values: Values) -> dict[str, Any]:
    if isinstance(values, Range):
        kind = "integer" if values.is_integer else "double"
        scales = aiplatform_v1.StudySpec.ParameterSpec.ScaleType
        return {
            "parameter_id": name,
            f"{kind}_value_spec": {"min_value": values.low, "max_value": values.high},
            "scale_type": scales.UNIT_LOG_SCALE
            if values.is_log
            else scales.UNIT_LINEAR_SCALE,
        }
    if any(isinstance(value, str) for value in values):
        return {"parameter_id": name, "categorical_value_spec": {"values": values}}
    return {"parameter_id": name, "discrete_value_spec": {"values": sorted(values)}}


def _result(trial: Trial) -> dict[str, Any]:
    """Returns the result of a trial, for `CompleteTrialRequest`."""
    last, value = trial.evaluations[-1] if trial.evaluations else (0, None)
    score = trial.score if trial.state == "completed" else metrics.score(value)
    if trial.state == "failed" or not math.isfinite(score):
        reason = trial.reason or "the metric is NaN"
        return {"trial_infeasible": True, "infeasible_reason": reason}
    return {"final_measurement": _measurement(last, score)}


def _measurement(step: int, score: float) -> dict[str, Any]:
    return {"step_count": step, "metrics": [{"metric_id": _METRIC, "value": score}]}


def connect(region: str) -> aiplatform_v1.VizierServiceClient:
    """Returns a client of the service in a region."""
    endpoint = f"{region}-aiplatform.googleapis.com"
    return aiplatform_v1.VizierServiceClient(client_options={"api_endpoint": endpoint})


def _list(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
