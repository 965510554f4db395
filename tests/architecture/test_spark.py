"""What makes Spark slow: a Python call for every row."""

from __future__ import annotations

import ast

from tests.architecture.source import name, tracked

A_ROW_AT_A_TIME = {"udf", "udtf", "rdd", "foreach", "foreachPartition", "toLocalIterator"}


def words(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom | ast.Import)]
    return attributes | {alias.name for node in imported for alias in node.names}


def test_no_job_and_no_transform_calls_python_for_a_row() -> None:
    found = {
        name(path): used
        for path in tracked("spark/*.py")
        if (used := words(path.read_text(encoding="utf-8")) & A_ROW_AT_A_TIME)
    }

    assert found == {}


def test_such_a_call_would_be_found() -> None:
    assert words("from pyspark.sql.functions import udf\nframe.rdd.map(f)") >= {"udf", "rdd"}
