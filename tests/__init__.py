"""Tests, laid out as the sources are."""

import os

# TensorFlow's client of Cloud Storage reads these when TensorFlow is imported. It sends
# a failed request again at once, not after seconds, and does not fill a buffer of 64 MB
# for each file that it opens.
os.environ.setdefault("GCS_RETRY_CONFIG_INIT_DELAY_TIME_US", "0")
os.environ.setdefault("GCS_READAHEAD_BUFFER_SIZE_BYTES", str(2**20))
