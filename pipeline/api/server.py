"""A model server for as long as a block of code runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modules.errors import UsageError
from pipeline.api.looking import Run
from pipeline.api.predictions import pushed


@dataclasses.dataclass(frozen=True)
class Server:
    """A running model server.

    Attributes:
      url: The address of its page and of its REST API.
      name: The name of the model in addresses.
    """

    url: str
    name: str
