"""What the gap ledger answers for where both records and ranges are very many."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.transforms.explaining import explained
from spark.transforms.slo import DROPPED

MANY = 50_000
APART = 1_000


@pytest.mark.timeout(60, func_only=True)
def test_many_scattered_drops_of_a_partition_are_explained_in_one_walk(
    session: SparkSession,
) -> None:
    """A day of one record in a thousand without a key, at a rate of hundreds a second."""
    at = F.col("id") * APART
    missing = session.range(MANY).select(
        F.lit(0).alias("partition"),
        at.alias("source_offset"),
        F.lit(None).cast("long").alias("expected"),
    )
    ledger = session.range(MANY).select(
        F.lit("east->west").alias("link"),
        F.lit("orders").alias("topic"),
        F.lit(0).alias("partition"),
        at.alias("first"),
        (at + 1).alias("end"),
        F.lit(1).cast("long").alias("records"),
        F.lit(DROPPED).alias("kind"),
    )

    told = explained(missing, ledger)

    assert told.where("explained").count() == MANY
