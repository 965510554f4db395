"""Whether both clusters have the topics still that an offset map is about.

The map of a topic that was deleted says nothing of what has its name now, and the catalog hears of
it last, or only when somebody resolves it. So ask once the map is read, and before it is believed.

A target that is away leaves nothing to translate into. A source that is away is why people ask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets
from mirrorfleet.offsets.floors import Seen, Sides

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import ClusterAlias, PartitionIdentity, TopicId
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.metadata import TopicMeta
    from mirrorfleet.offsets.copies import Answer
    from mirrorfleet.records.catalog import CatalogPartition

_SOURCE_S: Final = 3.0
"""For a source to say what it has: it may be away, and the answer must not wait for that."""
_HINT: Final = "See: mirrorfleet status."


def seen(topic: TopicMeta | None, topic_id: TopicId) -> Seen:
    """Any error but one may hide a topic that is there."""
    if topic is None:
        return Seen.UNSURE
    if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Seen.GONE
    if topic.error is not ErrorCode.NONE or NO_TOPIC_ID in {topic.topic_id, topic_id}:
        return Seen.UNSURE
    return Seen.THERE if topic.topic_id == topic_id else Seen.GONE


async def targets_seen(
    target: Cluster, entries: Iterable[CatalogPartition]
) -> dict[PartitionIdentity, Seen]:
    """The target topic of each partition, as it is now. Raises: errors of the target."""
    wanted = list(entries)
    names = sorted({entry.target_topic for entry in wanted})
    topics = (await target.metadata(names)).topics if names else {}
    return {
        entry.identity: seen(topics.get(entry.target_topic), entry.identity.target_topic_id)
        for entry in wanted
    }


async def sides_seen(
    source: Cluster, target: Cluster, entries: Iterable[CatalogPartition]
) -> dict[PartitionIdentity, Sides]:
    """Both topics of each partition, as they are now. Raises: errors of both clusters."""
    wanted = list(entries)
    names = sorted({entry.source_topic for entry in wanted})
    here = (await source.metadata(names)).topics if names else {}
    there = await targets_seen(target, wanted)
    return {
        entry.identity: Sides(
            seen(here.get(entry.source_topic), entry.identity.source_topic_id),
            there[entry.identity],
        )
        for entry in wanted
    }


async def checked(target: Cluster, answer: Answer) -> Answer:
    """The answer; `unchecked` where the target hides the topic from us.

    Raises: RefusedError when it is of a topic that was deleted; errors of the target.
    """
    entry = answer.entry
    sides = Sides(Seen.THERE, (await targets_seen(target, [entry]))[entry.identity])
    gone, unsure = side_words(entry, sides)
    if gone:
        raise RefusedError(gone, hint=_HINT)
    return replace(answer, unchecked=unsure)


async def source_checked(source: Cluster | None, answer: Answer) -> Answer:
    """As `checked` has left it; `unchecked` also where the source does not tell what it has, as
    when there is none that can be asked. An answer about what was deleted there is still true.

    Raises: RefusedError when the source has another topic of that name: the offset may be of it.
    """
    entry, topic, error = answer.entry, None, ""
    name, alias = entry.source_topic, entry.link.source
    try:
        if source is not None:
            topic = (await source.metadata([name], deadline_s=_SOURCE_S)).topics.get(name)
    except MirrorfleetError as failed:
        error = f" {failed}"
    found = seen(topic, entry.identity.source_topic_id)
    if found is Seen.THERE:
        return answer
    if found is Seen.UNSURE or topic is None:
        said = f"{_unsure_words(alias, name)}{error}"
    elif topic.error is ErrorCode.NONE:
        raise RefusedError(_gone_words(alias, name), hint=_HINT)
    else:
        said = f"{alias} has no {name} now: this is about the one that was deleted."
    return replace(answer, unchecked=f"{answer.unchecked} {said}".lstrip())


async def start_checked(cluster: Cluster, answer: Answer) -> Answer:
    """The answer; `unchecked` says so where `cluster`, which has the other side of it, has a log
    that begins behind it, as after retention. One that does not tell says nothing.
    """
    at = answer.other
    try:
        start = (await list_offsets(cluster, {at: EARLIEST}, deadline_s=_SOURCE_S))[at]
    except MirrorfleetError:
        return answer
    if isinstance(start, BrokerError) or start.offset <= answer.offset:
        return answer
    said = f"{cluster.name}: {at} begins at {start.offset} now; nothing below that can be read."
    return replace(answer, unchecked=f"{answer.unchecked} {said}".lstrip())


async def checked_or_told(source: Cluster | None, target: Cluster, answer: Answer) -> Answer:
    """As `checked` and `source_checked`, for a service that has the map: it answers while the
    target is away, and says so in `unchecked`.
    """
    try:
        answer = await checked(target, answer)
    except RefusedError:
        raise
    except MirrorfleetError as error:
        entry = answer.entry
        said = _unsure_words(entry.link.target, entry.target_topic)
        answer = replace(answer, unchecked=f"{said} {error}")
    return await source_checked(source, answer)


def side_words(entry: CatalogPartition, sides: Sides) -> tuple[str, str]:
    """Why nothing is translated, and what nobody knows about a translation; "" each if nothing."""
    told = list(zip(sides, entry.link, (entry.source_topic, entry.target_topic), strict=True))
    gone = [_gone_words(alias, topic) for found, alias, topic in told if found is Seen.GONE]
    unsure = [_unsure_words(alias, topic) for found, alias, topic in told if found is Seen.UNSURE]
    return " ".join(gone), " ".join(unsure)


def _gone_words(alias: ClusterAlias, topic: str) -> str:
    return (
        f"{alias}: the {topic} that the offset map is about was deleted."
        " What has its name now, if anything, is another topic."
    )


def _unsure_words(alias: ClusterAlias, topic: str) -> str:
    return f"not checked: {alias} did not say whether it still has this {topic}."
