"""The runtime: predicts and serves an exported folder, without TensorFlow.

    make runtime              the wheel, in dist/
    pip install dist/*.whl    resolves; locks/ has sets with hashes

It is the part of this tree that needs neither TensorFlow nor Beam, divided from the
full package by folders: a folder's modules are in one of the two wheels. The full
package (setup.py of the root) requires this one, and reads the names below.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parents[2]
NAME = "bert-pipeline-runtime"
VERSION = "1.0.0"  # of both packages
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PACKAGES = find_packages(
    str(ROOT),
    include=[
        *("bert_runtime", "bert_runtime.*"),
        *("contracts", "contracts.*"),
        *("ingest", "ingest.rows", "ingest.rows.*"),
        *("portable", "portable.*"),
        *("prediction", "serving"),
    ],
)
# The ranges include what the locks of the stacks have: stacks/*/requirements.lock.
REQUIREMENTS = [
    "click>=8,<9",
    "cryptography>=42",
    "fastapi>=0.110",
    "google-crc32c>=1.5",
    "markdown-it-py[linkify]>=3,<5",
    "numpy>=1.23.5,<3",
    "onnxruntime>=1.23,<2",
    "prometheus-client>=0.20",
    "pydantic>=2,<3",
    "tokenizers>=0.21,<1",
    "uvicorn>=0.30",
    "uvloop>=0.18; sys_platform != 'win32'",
]


def common_settings() -> dict:
    """Returns the arguments of `setup` that both packages share.

    Each build has a new folder: a shared one also has modules that were deleted since,
    or that a concurrent build wrote.
    """
    build = tempfile.mkdtemp(prefix="bert-pipeline-build-")
    atexit.register(shutil.rmtree, build, ignore_errors=True)
    return {
        "version": VERSION,
        "license": "Apache-2.0",
        "license_files": ["LICENSE"],
        "python_requires": ">=3.10,<3.14",
        "options": {"build": {"build_base": build}, "egg_info": {"egg_base": build}},
        "classifiers": [
            "Operating System :: POSIX :: Linux",
            *(f"Programming Language :: Python :: {python}" for python in PYTHONS),
        ],
    }


if __name__ == "__main__":
    os.chdir(ROOT)  # setuptools has no packages above the folder of a setup.py
    setup(
        name=NAME,
        description="Predicts with and serves exported BERT models, without TensorFlow",
        packages=PACKAGES,
        package_data={"serving": ["web/*"]},
        install_requires=REQUIREMENTS,
        entry_points={"console_scripts": ["bert-runtime = bert_runtime.cli.main:main"]},
        **common_settings(),
    )
