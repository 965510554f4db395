"""What the client does when a broker misbehaves in ways that no real one can be told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode as OurCode
from mirrorfleet.core.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineError,
    FencedError,
)
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterAlias, ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.fetcher import FetchLane, FetchPoint
from mirrorfleet.kafka.producer import ProduceEntry, ProduceLane
from mirrorfleet.kafka.transactions import NotAddedError, Transactions, TransactionVersion
from tests.fakes import broker as fake
from tests.fakes.broker import Asked, FakeBroker

BOTH = [TopicPartition("t", 0), TopicPartition("t", 1)]
V1, V2 = TransactionVersion.V1, TransactionVersion.V2


def settings(*bootstrap: str, request_timeout_s: float = 5.0) -> ClusterSettings:
    return ClusterSettings(
        alias=ClusterAlias("fake"), bootstrap=bootstrap, request_timeout_s=request_timeout_s
    )


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as made:
        yield made


@pytest.fixture
async def cluster(broker: FakeBroker) -> AsyncIterator[Cluster]:
    async with Cluster(settings(broker.bootstrap)) as opened:
        yield opened


async def begun(
    cluster: Cluster, version: TransactionVersion
) -> tuple[Transactions, ProducerIdentity]:
    transactions = Transactions(cluster, "slot", version)
    return transactions, await transactions.init_producer_id(timeout_ms=15_000)


def ends(broker: FakeBroker) -> list[tuple[int, int, bool]]:
    """(producer id, epoch, commit) of every EndTxn that came."""
    return [(r.producer_id, r.producer_epoch, r.committed) for r in broker.asked(fake.END_TXN)]


# -- EndTxn


@pytest.mark.parametrize("version", [V1, V2])
async def test_a_lost_end_is_sent_again_as_it_was(
    broker: FakeBroker, cluster: Cluster, version: TransactionVersion
) -> None:
    transactions, producer = await begun(cluster, version)
    broker.then(fake.END_TXN, fake.hang_up)
    following = await transactions.end(producer, commit=True)
    assert ends(broker) == [(7000, 0, True), (7000, 0, True)]
    assert following == ProducerIdentity(7000, 1 if version is V2 else 0)
    assert (transactions.resent, transactions.must_init_again) == (True, version is V1)


async def test_an_end_without_answer_is_sent_again_on_a_new_connection(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.END_TXN, fake.stay_silent)
    assert await transactions.end(producer, commit=False, deadline_s=3.0) == (7000, 1)
    assert ends(broker) == [(7000, 0, False), (7000, 0, False)]
    assert transactions.resent


async def test_an_end_that_is_never_answered_leaves_the_outcome_open(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.END_TXN, *[fake.stay_silent] * 9)
    with pytest.raises(DeadlineError, match=r"EndTxn: gave up after 1.5 s; last: no answer from"):
        await transactions.end(producer, commit=True, deadline_s=1.5)
    assert set(ends(broker)) == {(7000, 0, True)}


@pytest.mark.parametrize("code", [ErrorCode.not_coordinator, ErrorCode.coordinator_not_available])
async def test_a_coordinator_that_moved_is_found_again(
    broker: FakeBroker, cluster: Cluster, code: ErrorCode
) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.END_TXN, fake.refuse_end(code))
    await transactions.end(producer, commit=True)
    assert len(broker.asked(fake.FIND_COORDINATOR)) == 2
    assert ends(broker) == [(7000, 0, True), (7000, 0, True)]
    assert transactions.resent  # the log may have been written before the coordinator moved


@pytest.mark.parametrize(
    "code", [ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress]
)
async def test_a_coordinator_that_did_nothing_is_asked_again_and_it_does_not_count(
    broker: FakeBroker, cluster: Cluster, code: ErrorCode
) -> None:
    transactions, producer = await begun(cluster, V1)
    broker.then(fake.END_TXN, fake.refuse_end(code), fake.refuse_end(code))
    await transactions.end(producer, commit=True)
    assert len(ends(broker)) == 3
    assert not transactions.resent


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
    ],
)
async def test_fencing_is_final(broker: FakeBroker, cluster: Cluster, code: ErrorCode) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.END_TXN, fake.refuse_end(code))
    with pytest.raises(FencedError, match=f"slot: EndTxn: {code.name.upper()}"):
        await transactions.end(producer, commit=True)
    assert len(ends(broker)) == 1
    assert len(broker.asked(fake.INIT_PRODUCER_ID)) == 1


async def test_a_transaction_that_can_only_be_aborted_says_so(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.END_TXN, fake.refuse_end(ErrorCode.transaction_abortable))
    with pytest.raises(BrokerError) as caught:
        await transactions.end(producer, commit=True)
    assert caught.value.code is OurCode.TRANSACTION_ABORTABLE


async def test_a_new_epoch_forgets_that_something_was_sent_twice(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V1)
    broker.then(fake.END_TXN, fake.hang_up)
    await transactions.end(producer, commit=True)
    await transactions.init_producer_id(timeout_ms=15_000)
    assert not transactions.resent


async def test_an_abort_of_v1_is_refused_before_anything_is_sent(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V1)
    with pytest.raises(ValueError, match="init_producer_id, never an EndTxn"):
        await transactions.end(producer, commit=False)
    assert ends(broker) == []


@pytest.mark.parametrize(("version", "spoken"), [(V1, 3), (V2, 5)])
async def test_the_version_of_end_decides_the_kind_of_transaction(
    broker: FakeBroker, cluster: Cluster, version: TransactionVersion, spoken: int
) -> None:
    transactions, producer = await begun(cluster, version)
    await transactions.end(producer, commit=True)
    assert [a.version for a in broker.seen if a.api_key == fake.END_TXN] == [spoken]


# -- InitProducerId, AddPartitionsToTxn


async def test_init_waits_for_the_markers_of_the_transaction_before(
    broker: FakeBroker, cluster: Cluster
) -> None:
    busy = fake.refuse_init(ErrorCode.concurrent_transactions)
    broker.then(fake.INIT_PRODUCER_ID, busy, busy, busy)
    _, producer = await begun(cluster, V2)
    assert producer == ProducerIdentity(7000, 0)
    assert len(broker.asked(fake.INIT_PRODUCER_ID)) == 4


async def test_init_that_never_gets_through_says_what_stood_in_the_way(
    broker: FakeBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in a pause: a last try in the last millisecond would have no answer."""
    monkeypatch.setattr("mirrorfleet.kafka.transactions._CONCURRENT_PAUSE_S", 1.0)
    busy = fake.refuse_init(ErrorCode.concurrent_transactions)
    broker.then(fake.INIT_PRODUCER_ID, *[busy] * 50)
    transactions = Transactions(cluster, "slot", V2)
    with pytest.raises(DeadlineError, match=r"gave up after 0.2 s; last: .*CONCURRENT"):
        await transactions.init_producer_id(timeout_ms=15_000, deadline_s=0.2)


def add_answer(asked: Asked, *codes: ErrorCode) -> object:
    schema = fake.answers(asked)
    results = tuple(
        schema.AddPartitionsToTxnPartitionResult(partition_index=n, partition_error_code=code)
        for n, code in enumerate(codes)
    )
    topic = schema.AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    return schema.AddPartitionsToTxnResponse(
        throttle_time=fake.no_time(), results_by_topic_v3_and_below=(topic,)
    )


async def test_adding_partitions_is_repeated_while_markers_are_written(
    broker: FakeBroker, cluster: Cluster
) -> None:
    transactions, producer = await begun(cluster, V1)
    busy, fine = ErrorCode.concurrent_transactions, ErrorCode.none
    broker.then(
        fake.ADD_PARTITIONS,
        lambda asked: add_answer(asked, busy, busy),
        lambda asked: add_answer(asked, fine, fine),
    )
    await transactions.add_partitions(producer, BOTH)
    first, second = broker.asked(fake.ADD_PARTITIONS)
    assert first == second
    assert not transactions.resent


@pytest.mark.parametrize(
    "code", [ErrorCode.concurrent_transactions, ErrorCode.unknown_topic_or_partition]
)
async def test_adding_partitions_waits_for_what_may_pass_no_longer_than_it_is_told(
    broker: FakeBroker, cluster: Cluster, code: ErrorCode
) -> None:
    transactions, producer = await begun(cluster, V2)
    broker.then(fake.ADD_PARTITIONS, *[lambda asked: add_answer(asked, code, code)] * 50)
    with pytest.raises(BrokerError, match=code.name.upper()):
        await transactions.add_partitions(producer, BOTH, deadline_s=30.0, busy_s=0.3)
    assert 2 <= len(broker.asked(fake.ADD_PARTITIONS)) < 40


async def test_who_was_refused_is_named(broker: FakeBroker, cluster: Cluster) -> None:
    """Kafka marks the others OPERATION_NOT_ATTEMPTED: all are added or none."""
    transactions, producer = await begun(cluster, V1)
    codes = (ErrorCode.operation_not_attempted, ErrorCode.topic_authorization_failed)
    broker.then(fake.ADD_PARTITIONS, lambda asked: add_answer(asked, *codes))
    with pytest.raises(NotAddedError, match="t-1: TOPIC_AUTHORIZATION_FAILED") as refused:
        await transactions.add_partitions(producer, BOTH)
    assert refused.value.at == BOTH[1]


# -- finding the cluster


async def refuse_version(asked: Asked) -> object:
    """What a broker says to an ApiVersions of a version that it does not know: v0's form."""
    old: Any = fake.answers(Asked(fake.API_VERSIONS, 0, None))
    ranges = (old.ApiVersion(api_key=fake.API_VERSIONS, min_version=0, max_version=3),)
    return old.ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=ranges)


@pytest.mark.parametrize(("refusals", "spoken"), [(0, [4]), (1, [4, 3]), (2, [4, 3, 0])])
async def test_api_versions_falls_back_to_what_an_older_broker_knows(
    broker: FakeBroker, refusals: int, spoken: list[int]
) -> None:
    broker.then(fake.API_VERSIONS, *[refuse_version] * refusals)
    async with Cluster(settings(broker.bootstrap)) as cluster:
        versions = [a.version for a in broker.seen if a.api_key == fake.API_VERSIONS]
        assert versions == spoken
        assert cluster.cluster_id == "fake-cluster"


async def test_when_all_known_brokers_are_gone_the_bootstrap_addresses_are_asked_again() -> None:
    async with FakeBroker() as first, FakeBroker() as second:
        first.brokers = {2: second.address}
        async with Cluster(settings(first.bootstrap)) as cluster:
            assert [b.port for b in cluster.brokers.values()] == [second.address[1]]
            await second.die()
            first.brokers = {3: first.address}
            await cluster.metadata(())
            assert list(cluster.brokers) == [3]


async def test_nobody_at_any_address_names_the_last_one() -> None:
    async with FakeBroker() as gone:
        address = gone.bootstrap
    with pytest.raises(ConnectionLostError, match=f"{address} .fake.: cannot connect"):
        await Cluster(settings(address)).open()


async def test_a_broker_that_never_answers_costs_no_more_than_the_time_out(
    broker: FakeBroker,
) -> None:
    broker.then(fake.METADATA, fake.stay_silent)
    quick = settings(broker.bootstrap, request_timeout_s=0.2)
    with pytest.raises(DeadlineError, match=r"no answer from .* to Metadata v10 in time"):
        await Cluster(quick).open()


async def test_a_frozen_broker_costs_its_share_and_another_one_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.any_broker.LEAST_S", 0.1)
    async with FakeBroker() as frozen, FakeBroker() as other:
        quick = settings(frozen.bootstrap, other.bootstrap, request_timeout_s=3.2)
        frozen.then(fake.METADATA, fake.stay_silent)
        began = time.monotonic()
        await Cluster(quick).open()
        took = time.monotonic() - began
    assert len(other.asked(fake.METADATA)) == 1
    assert 1.6 <= took < 2.8


async def test_a_write_to_a_frozen_broker_ends_at_its_deadline(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.then(fake.METADATA, *[fake.topic_of(broker, "t")] * 2)
    broker.then(fake.PRODUCE, fake.stay_silent)
    writer = ControlWriter(cluster, deadline_s=0.5)
    began = time.monotonic()
    with pytest.raises(DeadlineError, match=r"writing t-0: gave up after 0.5 s; last: no answer"):
        await writer.write(BOTH[0], [(b"k", b"v")], 0)
    assert time.monotonic() - began < 3.0
    writer.close()


async def test_a_throttled_client_is_quiet_for_as_long_as_it_was_told(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.then(fake.METADATA, lambda asked: broker.metadata(asked, throttle_ms=150))
    await cluster.metadata(())
    before = asyncio.get_running_loop().time()
    await cluster.metadata(())
    assert asyncio.get_running_loop().time() - before >= 0.14


async def test_one_broker_below_4_3_means_transactions_v1() -> None:
    async with FakeBroker() as new, FakeBroker(metadata_level=29) as old:
        new.brokers = old.brokers = {1: new.address, 2: old.address}
        async with Cluster(settings(new.bootstrap)) as cluster:
            assert await cluster.transaction_version() is V1
            new.brokers = old.brokers = {1: new.address}
            await cluster.metadata(())
            assert await cluster.transaction_version() is V2


# -- lanes


async def test_a_produce_whose_answer_is_lost_is_not_sent_again(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.then(fake.PRODUCE, fake.hang_up)
    lane = ProduceLane(await cluster.connect(1, purpose="test"))
    pending = lane.send([ProduceEntry("t", NO_TOPIC_ID, 0, b"h" * 61, b"payload")])
    with pytest.raises(ConnectionLostError):
        await pending
    assert len(broker.asked(fake.PRODUCE)) == 1


def fetch_answer(asked: Asked, code: ErrorCode, session_id: int) -> object:
    return fake.answers(asked).FetchResponse(
        throttle_time=fake.no_time(), error_code=code, session_id=session_id, responses=()
    )


async def test_a_fetch_session_that_the_broker_lost_is_made_anew_unseen(
    broker: FakeBroker, cluster: Cluster
) -> None:
    lost = ErrorCode.fetch_session_id_not_found
    broker.then(
        fake.FETCH,
        lambda asked: fetch_answer(asked, ErrorCode.none, 9),
        lambda asked: fetch_answer(asked, lost, 0),
        lambda asked: fetch_answer(asked, ErrorCode.none, 10),
    )
    lane = FetchLane(await cluster.connect(1, purpose="test"))
    lane.want(FetchPoint(topic="t", topic_id=NO_TOPIC_ID, partition=0, offset=0))
    for _ in range(2):
        fetched = await lane.fetch(max_bytes=1000, max_wait_ms=10)
        assert fetched.partitions == []
    said = [(r.session_id, r.session_epoch, len(r.topics)) for r in broker.asked(fake.FETCH)]
    assert said == [(0, 0, 1), (9, 1, 0), (0, 0, 1)]


async def test_a_lane_that_wants_nothing_does_not_ask(cluster: Cluster) -> None:
    lane = FetchLane(await cluster.connect(1, purpose="test"))
    with pytest.raises(ValueError, match="nothing is wanted"):
        await lane.fetch(max_bytes=1, max_wait_ms=1)
