"""The latest blessed model that is not the candidate itself."""

from __future__ import annotations

import ml_metadata as mlmd
from tfx import types
from tfx import v1 as tfx

MODEL = "model"
BLESSING = "model_blessing"
CANDIDATE = "candidate"


class LatestBlessedOtherModelStrategy(tfx.dsl.experimental.LatestBlessedModelStrategy):
    """Resolves the champion, for a Resolver with a third input, the candidate.

    TFX's own strategy gives a candidate that was blessed before itself as champion,
    so that running an unchanged pipeline again would evaluate it again.
    """

    def resolve_artifacts(
        self, store: mlmd.MetadataStore, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]] | None:
        """Returns the latest blessed model other than the candidate, if there is one.

        Args:
          store: The metadata store.
          input_dict: All `model`s, all `model_blessing`s and the `candidate`.

        Returns:
          The same keys, with at most one `model` and its `model_blessing`.
        """
        candidates = input_dict[CANDIDATE]
        ids = {artifact.id for artifact in candidates}
        champions = super().resolve_artifacts(
            store,
            {
                MODEL: [model for model in input_dict[MODEL] if model.id not in ids],
                BLESSING: input_dict[BLESSING],
            },
        )
        return {**(champions or {MODEL: [], BLESSING: []}), CANDIDATE: candidates}
