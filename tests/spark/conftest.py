"""One session for all transforms: small, quiet, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import open_session

HERE = Path(__file__).parent
LEFT_OPEN = "ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning"
"""pyspark leaves the sockets of its results to the garbage collector."""
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For frames of a few rows: compiling and re-planning would take longer than running."""
AS_SHIPPED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))
            item.add_marker(pytest.mark.timeout(300, func_only=True))


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    opened = open_session(
        "tests",
        master="local[2]",
        settings={
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            **SMALL,
            "spark.ui.enabled": "false",
            "spark.ui.retainedJobs": "10",
            "spark.ui.retainedStages": "10",
            "spark.sql.ui.retainedExecutions": "1",
            "spark.ui.showConsoleProgress": "false",
        },
    )
    yield opened
    opened.stop()


@pytest.fixture(autouse=True)
def forgetting(session: SparkSession) -> Iterator[None]:
    """Each plan is compared with every frame that is kept, so a thousand of them cost minutes."""
    yield
    session.catalog.clearCache()


@pytest.fixture
def compiling(session: SparkSession) -> Iterator[SparkSession]:
    """The session as jobs have it, for frames of many rows."""
    for name, value in AS_SHIPPED.items():
        session.conf.set(name, value)
    yield session
    for name, value in SMALL.items():
        session.conf.set(name, value)
