"""How slots copy: sizes, times and budgets, each bound with what it protects."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mirrorfleet.copying.schedule import CommitPolicy


class SlotSettings(BaseModel):
    """Every one has a default that suits a region pair."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    memory_bytes: int = Field(default=56 << 20, ge=4 << 20)
    """Bytes fetched and not yet acknowledged, of the whole process."""
    fetch_max_bytes: int = Field(default=8 << 20, ge=256 << 10, le=256 << 20)
    """Most bytes of one fetch answer. Of a backlog less is never asked for; an answer above 300 MB,
    its first batch and the headers included, is taken for a broken connection."""
    partition_fetch_bytes: int = Field(default=1 << 20, ge=16 << 10, le=256 << 20)
    """Most bytes of one partition in a fetch answer, so that none starves the others; of old
    backlog a whole answer."""
    fetch_connections: int = Field(default=144, ge=1, le=256)
    """Most connections to one source broker far away, for old backlog, of all slots of the process
    together; the first one of each slot is not counted. More than 48 only where a window lets
    little through, and never under TLS (`copying/seats.py`)."""
    partition_queue_bytes: int = Field(default=4 << 20, ge=64 << 10)
    """Bytes of one partition that may wait to be sent; then it is not fetched for a while."""
    fetch_wait_ms: int = Field(default=500, ge=1, le=5_000)
    """How long the source may hold an empty answer back."""
    requests_in_flight: int = Field(default=16, ge=1, le=64)
    """Produce requests of one slot to one broker without an answer (64 was measured safe)."""
    request_bytes: int = Field(default=8 << 20, ge=64 << 10, le=64 << 20)
    """Most bytes of one produce request, one batch a partition. Brokers take 100 MB
    (socket.request.max.bytes), the last batch and the headers included."""
    produce_timeout_ms: int = Field(default=5_000, ge=500, le=5_000)
    """A broker mutes the connection until all replicas have what was sent (`acks=all`): a slow
    follower holds all its partitions for that long at most."""
    transaction_timeout_ms: int = Field(default=15_000, ge=10_000, le=60_000)
    """After this the coordinator aborts; the longest transaction (5 s) and its EndTxn fit in."""
    markers_per_second: float = Field(default=2_000.0, gt=0)
    """Budget of commit markers that this process causes on the target."""
    commit_shortest_ms: float = Field(default=15.0, ge=1)
    """Between two commits of a slot, at least."""
    commit_longest_ms: float = Field(default=1_000.0, le=5_000)
    """And at most, however short the budget of markers is."""
    commit_idle_s: float = Field(default=5.0, gt=0, le=60)
    """A position that moved without data is committed after this long."""
    keep_alive_s: float = Field(default=86_400.0, gt=0, le=259_200)
    """An idle slot commits this often: ids expire after 7 days (transactional.id.expiration.ms),
    and the second commit still comes in time."""

    @model_validator(mode="after")
    def _commits_in_order(self) -> Self:
        """Otherwise the shortest would count for nothing."""
        if self.commit_longest_ms < self.commit_shortest_ms:
            raise ValueError(
                f"commit_longest_ms ({self.commit_longest_ms:g}) must be at least"
                f" commit_shortest_ms ({self.commit_shortest_ms:g})"
            )
        return self

    @property
    def commits(self) -> CommitPolicy:
        """When transactions end."""
        return CommitPolicy(
            markers_per_second=self.markers_per_second,
            shortest_s=self.commit_shortest_ms / 1000,
            longest_s=self.commit_longest_ms / 1000,
        )
