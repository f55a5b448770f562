"""What is set up before TensorFlow and TFX are imported."""

import subprocess
import sys

_IMPORT_TFX = """
import sys
import modules
from tfx import v1 as tfx
print("google.cloud.aiplatform" in sys.modules)
print(hasattr(tfx.extensions, "no_such_extension"))
print(tfx.extensions.google_cloud_ai_platform.Trainer.__name__)
from tfx.v1.extensions import google_cloud_big_query
print(google_cloud_big_query.BigQueryExampleGen.__name__)
"""


def test_tfx_imports_the_ai_platform_when_it_is_asked_for_and_not_before():
    command = [sys.executable, "-c", _IMPORT_TFX]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "False", "Trainer", "BigQueryExampleGen"]
