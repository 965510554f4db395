"""What makes Spark slow, a Python call for every row; and who may need Spark to be installed."""

from __future__ import annotations

import ast

from tests.architecture.source import name, python_files, tracked

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


def imported_at_once(source: str) -> set[str]:
    """The modules, and what may be modules, that a file imports when it is imported itself."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def reached(start: set[str], imports: dict[str, set[str]]) -> set[str]:
    """All that is imported in the end."""
    found, waiting = set(start), list(start)
    while waiting:
        new = imports.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def test_only_sparks_own_tests_need_it() -> None:
    """`make test` runs where only `make setup` did; nobody with Spark installed would see it."""
    sources = {path: imported_at_once(path.read_text(encoding="utf-8")) for path in python_files()}
    imports = {
        name(path).removeprefix("libs/").removesuffix(".py").replace("/", "."): of
        for path, of in sources.items()
    }
    need = {
        name(path)
        for path, of in sources.items()
        if name(path).startswith("tests/") and path.name.startswith(("test_", "conftest"))
        if "pyspark" in {each.partition(".")[0] for each in reached(of, imports)}
    }

    assert {each for each in need if not each.startswith("tests/spark/")} == set()
    assert "tests/spark/test_audit.py" in need  # by way of a job
