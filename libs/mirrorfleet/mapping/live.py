"""Whether the target has the topics still that an offset map is about.

The map of a topic that was deleted says nothing of what has its name now, and the catalog hears of
it last, or only when somebody resolves it. So ask once the map is read, and before it is believed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.offsets.floors import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ids import PartitionIdentity, TopicId
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.metadata import TopicMeta
    from mirrorfleet.offsets.copies import Answer
    from mirrorfleet.records.catalog import CatalogPartition


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


async def checked(target: Cluster, answer: Answer) -> Answer:
    """The answer; `unchecked` where the target hides the topic from us.

    Raises: RefusedError when it is of a topic that was deleted; errors of the target.
    """
    entry = answer.entry
    found = (await targets_seen(target, [entry]))[entry.identity]
    if found is Seen.GONE:
        raise RefusedError(gone_words(entry), hint="See: mirrorfleet status.")
    return answer if found is Seen.THERE else replace(answer, unchecked=unsure_words(entry))


async def checked_or_told(target: Cluster, answer: Answer) -> Answer:
    """As `checked`, for a service that has the map: it answers while the target is away, and says
    so in `unchecked`.
    """
    try:
        return await checked(target, answer)
    except RefusedError:
        raise
    except MirrorfleetError as error:
        return replace(answer, unchecked=f"{unsure_words(answer.entry)} {error}")


def gone_words(entry: CatalogPartition) -> str:
    """Why nothing is translated."""
    return (
        f"{entry.link.target}: the {entry.target_topic} that the offset map is about was deleted."
        " What has its name now, if anything, is another topic."
    )


def unsure_words(entry: CatalogPartition) -> str:
    """What nobody knows about a translation."""
    alias, topic = entry.link.target, entry.target_topic
    return f"not checked: {alias} did not say whether it still has this {topic}."
