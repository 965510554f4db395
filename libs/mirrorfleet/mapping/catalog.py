"""The catalog of a fleet as its readers keep it: what is copied now, and by which slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    BrokerError,
    MirrorfleetError,
    RefusedError,
    UnknownVersionError,
    denied,
)
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    FleetName,
    Link,
    PartitionIdentity,
    SlotNumber,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlTail
from mirrorfleet.kafka.stored import bounds_that_are_told, committed_records
from mirrorfleet.records.catalog import (
    CatalogAcl,
    CatalogConfig,
    CatalogEntry,
    CatalogLink,
    CatalogLoss,
    CatalogPartition,
    CatalogState,
    Removed,
    decode,
)
from mirrorfleet.records.formats import FIRST_LEVEL
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.wire.records import Record

_AGAIN_S = 1.0
_OTHERS_WAIT_S: Final = 5.0
"""For a partition that has no leader now, where others can be read without it."""


class CatalogView:
    """Partitions and links by what the catalog says last."""

    def __init__(self, *, keeps_removed: bool = False) -> None:
        """`keeps_removed` is for who has maps: those of removed partitions are to be forgotten."""
        self.partitions: dict[PartitionIdentity, CatalogPartition] = {}
        self.removed: dict[PartitionIdentity, CatalogPartition] = {}
        self.links: dict[ClusterAlias, CatalogLink] = {}
        self.losses: dict[PartitionIdentity, CatalogLoss] = {}
        """Of removed incarnations, too: offsets below a loss are translated through them."""
        self.format_level = FIRST_LEVEL
        self._keeps_removed = keeps_removed

    def copied(self) -> CatalogView:
        """One that says the same, and goes its own way then."""
        copy = CatalogView(keeps_removed=self._keeps_removed)
        copy.partitions, copy.removed = dict(self.partitions), dict(self.removed)
        copy.links, copy.losses = dict(self.links), dict(self.losses)
        copy.format_level = self.format_level
        return copy

    def become(self, other: CatalogView) -> None:
        """Say what another one says, now and from now on."""
        self.partitions, self.removed = other.partitions, other.removed
        self.links, self.losses = other.links, other.losses
        self.format_level = other.format_level

    def apply(self, entry: CatalogEntry | Removed) -> None:
        """Take one record of the catalog."""
        match entry:
            case CatalogPartition():
                if entry.loss is not None:
                    self.losses[entry.identity] = entry.loss
                self._take(entry)
            case CatalogLink():
                self.links[entry.link.source] = entry
            case Removed(identity=PartitionIdentity() as identity):
                self.partitions.pop(identity, None)
                self.removed.pop(identity, None)
                self.losses.pop(identity, None)
            case CatalogConfig(format_level=level):
                self.format_level = level
            case CatalogAcl() | Removed():
                pass

    def _take(self, entry: CatalogPartition) -> None:
        if entry.state is not CatalogState.REMOVED:
            self.partitions[entry.identity] = entry
            self.removed.pop(entry.identity, None)
            return
        self.partitions.pop(entry.identity, None)
        if self._keeps_removed:
            self.removed[entry.identity] = entry

    @property
    def mapped(self) -> list[CatalogPartition]:
        """Partitions of which there may be a map: what is copied now, and what was."""
        return [*self.partitions.values(), *self.removed.values()]

    def of_link(self, link: Link) -> list[CatalogPartition]:
        """What one link copies."""
        return [entry for entry in self.partitions.values() if entry.link == link]

    def known_link(self, link: Link, fleet: FleetName) -> CatalogLink:
        """What the catalog says of a link.

        Under names that it does not have there is nothing of any link, which is no answer to who
        asks what it copied. Raises: RefusedError, with the links that there are.
        """
        links = {entry.link: entry for entry in self.links.values()}
        if link not in links:
            known = ", ".join(sorted(map(str, links))) or "none"
            raise RefusedError(
                f"fleet {fleet} has no link {link}.",
                hint=f"Links: {known}. What is new or renamed is told by: mirrorfleet plan",
            )
        return links[link]

    @property
    def slots(self) -> frozenset[SlotNumber]:
        """Slots that copy something, and those that a link may use."""
        used = {entry.slot for entry in self.partitions.values()}
        return frozenset(used.union(*(link.slots for link in self.links.values())))

    def check_source(self, alias: ClusterAlias, cluster: ClusterId, fleet: FleetName) -> None:
        """An alias that now means another cluster would mix two histories. Raises: RefusedError."""
        if self.knows_other(alias, cluster):
            raise RefusedError(
                f"alias {alias} means cluster {cluster} now, but the catalog of fleet {fleet}"
                f" knows it as {self.links[alias].source_cluster}.",
                hint="Give the new cluster a new alias, or correct its bootstrap in the estate.",
            )

    def knows_other(self, alias: ClusterAlias, cluster: ClusterId) -> bool:
        """Whether the catalog means another cluster than this by the alias."""
        recorded = self.links.get(alias)
        return recorded is not None and recorded.source_cluster != cluster


async def open_source(source: Cluster, view: CatalogView, fleet: FleetName) -> None:
    """Reach a source, and see that it is the cluster that the catalog means by its alias.

    One that is not is forgotten: what answers at its address the next time may be the right one.
    So is one that was opened before the catalog said so, and that another now answers for: it would
    refuse the right one for ever. The right one stays known, whoever has its address meanwhile.
    Raises: RefusedError; as `Cluster.open`.
    """
    alias = source.settings.alias
    try:
        await source.open()
        view.check_source(alias, source.cluster_id, fleet)
    except RefusedError:
        if view.knows_other(alias, source.cluster_id):
            await source.forget()
        raise


async def follow_catalog(
    settings: ClusterSettings,
    fleet: FleetName,
    view: CatalogView,
    *,
    on_caught_up: Callable[[], None],
    on_trouble: Callable[[str], None],
) -> None:
    """Keep `view` up to date for ever; wait for the topic, which `sync` makes.

    `on_caught_up` is called when all that is there is in the view: at first, and after each change
    from then on. A topic is read from its begin after each trouble, and until its end it tells what
    was once: a copy is brought through that, and the view becomes it at the end. What was known
    before is not forgotten where the topic was made anew and does not have it yet.

    Raises: UnknownVersionError; until it was read once, AuthenticationError and what else a retry
    cannot help. After that it may be a secret that is half renewed.
    """
    topic = control_topic(fleet, ControlKind.CATALOG)
    was_read = False
    while True:
        reading = view.copied()

        def caught_up(reading: CatalogView = reading) -> None:
            view.become(reading)
            on_caught_up()

        try:
            async with ControlTail(settings, topic, on_caught_up=caught_up) as tail:
                async for record in tail:
                    reading.apply(decode(record.key, record.value))
                    if tail.caught_up:
                        was_read = True
                        caught_up()
        except MirrorfleetError as error:
            why = _explained(error, settings, topic)
            if isinstance(error, UnknownVersionError) or not (error.retriable or was_read):
                raise why from error.__cause__
            on_trouble(f"{topic} cannot be read: {why}")
        await asyncio.sleep(_AGAIN_S)


def _explained(error: MirrorfleetError, settings: ClusterSettings, topic: str) -> MirrorfleetError:
    """A refused catalog, with who wanted to read it."""
    if not (isinstance(error, BrokerError) and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        return error
    return denied(error.code, settings.security.principal, "READ", f"Topic:{topic}", settings.alias)


async def read_catalog(cluster: Cluster, fleet: FleetName) -> CatalogView:
    """The catalog as it is now.

    Raises: RefusedError when there is none yet; UnknownVersionError; as `read_control`.
    """
    view = CatalogView()
    if not await read_control(
        cluster,
        control_topic(fleet, ControlKind.CATALOG),
        lambda record: view.apply(decode(record.key, record.value)),
    ):
        raise no_catalog(cluster, fleet)
    return view


def no_catalog(cluster: Cluster, fleet: FleetName) -> RefusedError:
    """For who asked for something that is in it."""
    return RefusedError(
        f"{cluster.name}: fleet {fleet!r} has no catalog yet, so nothing is copied.",
        hint=f"Next: mirrorfleet run sync --target {cluster.name}",
    )


async def read_control(
    cluster: Cluster,
    name: str,
    take: Callable[[Record], None],
    *,
    last: int | None = None,
    unread: dict[int, MirrorfleetError] | None = None,
) -> bool:
    """Give `take` the committed records of a control topic; False when there is no such topic.

    One at a time: a topic may be of hundreds of megabytes, of which a key's last record counts.
    With `last` only what lies in so many last offsets of each partition. With `unread` a partition
    that cannot be read now is put there, and keeps nobody from the others.

    Raises: BrokerError of a partition or of what we may not do, CorruptBatchError, connection
    errors.
    """
    topic = (await cluster.metadata((name,))).topics[name]
    if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    topic = await cluster.topic(name, refresh=True)
    wait_s = None if unread is None else _OTHERS_WAIT_S
    told = await bounds_that_are_told(cluster, topic, deadline_s=wait_s)
    for number, bounds in told.items():
        try:
            if isinstance(bounds, BrokerError):
                raise bounds
            begin = bounds[0] if last is None else max(bounds[0], bounds[1] - last)
            async for record in committed_records(cluster, topic, number, begin, bounds[1]):
                take(record)
        except MirrorfleetError as error:
            if unread is None or not (error.retriable or _is_shut(error)):
                raise
            unread[number] = error
    return True


def _is_shut(error: MirrorfleetError) -> bool:
    """Whether one broker does not let us in, where another one does."""
    return isinstance(error, BrokerError) and error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
