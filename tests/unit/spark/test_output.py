from __future__ import annotations

import pytest

from spark.output import reason

IN_PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/project/spark/transforms/coding.py", line 74, in decode_partitions
    return _arrow(_CATALOG, (row for record in _rows(batches) for row in _entry(record)))
  File "/project/libs/mirrorfleet/records/json_object.py", line 40, in decode
    raise UnknownVersionError(f"{what} has version {found}")
mirrorfleet.core.errors.UnknownVersionError: a catalog record has version 9
"""
CHAINED = """Traceback (most recent call last):
  File "coding.py", line 1, in decode
KeyError: 'v'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "coding.py", line 2, in decode
mirrorfleet.core.errors.CorruptBatchError: a catalog record without a version
"""
IN_JAVA = """An error occurred while calling o54.load.
: org.apache.kafka.common.KafkaException: Failed to construct kafka consumer
\tat org.apache.kafka.clients.consumer.KafkaConsumer.<init>(KafkaConsumer.java:1)
Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls
\tat org.apache.kafka.clients.ClientUtils.parse(ClientUtils.java:2)
"""
AROUND = f"""An error occurred while calling o60.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times
Caused by: org.apache.spark.api.python.PythonException: {IN_PYTHON.lstrip()}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:3)
java.lang.IllegalStateError: this one says nothing
"""
OVERFLOWN = """An error occurred while calling o60.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times
Caused by: java.lang.ArithmeticException: long overflow
\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)
\tat org.apache.spark.sql.catalyst.util.SparkDateTimeUtils.millisToMicros(DateTimeUtils.scala:5)
"""
UNKNOWN = "mirrorfleet.core.errors.UnknownVersionError: a catalog record has version 9"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(IN_PYTHON, UNKNOWN, id="a worker of Python"),
        pytest.param(AROUND, UNKNOWN, id="the same, told by Java"),
        pytest.param(
            CHAINED,
            "mirrorfleet.core.errors.CorruptBatchError: a catalog record without a version",
            id="an error out of another",
        ),
        pytest.param(
            IN_JAVA,
            "Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap"
            " urls",
            id="Java",
        ),
        pytest.param("\n  table not found\n at line 3", "table not found", id="a sentence"),
        pytest.param("", "ValueError", id="nothing"),
        pytest.param("x" * 500, "x" * 400, id="too long"),
    ],
)
def test_the_reason_of_a_failed_job_is_the_line_that_says_what_happened(
    text: str, said: str
) -> None:
    assert reason(ValueError(text)) == said


def test_a_timestamp_that_spark_cannot_hold_is_told_with_who_wrote_it_and_what_to_do() -> None:
    said = reason(ValueError(OVERFLOWN))

    assert "timestamp that Spark cannot hold" in said
    assert "nanoseconds where Kafka has milliseconds" in said
    assert "when retention has taken" in said
