"""The settings of the exported model."""

import pydantic
import pytest

from contracts.settings.serving import ServingConfig


def test_portable_folder_of_a_model_in_bfloat16_is_refused():
    with pytest.raises(pydantic.ValidationError, match=r"`precision` bfloat16: ONNX"):
        ServingConfig(portable=True, precision="bfloat16")
    assert not ServingConfig(precision="bfloat16").portable
