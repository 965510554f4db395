"""What to do about a partition that stands still, as a person can run it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import FaultReason, standing_in

if TYPE_CHECKING:
    from mirrorfleet.records.catalog import CatalogPartition

_SKIP: Final = "Or leave the record out: `{resolve} --skip`."
_AGAIN_OR_WITHOUT: Final = (
    "`{resolve} --seek FIRST` copies them again, `{resolve} --accept-gap FIRST..END` goes on"
    " without them."
)
_HELP: Final = {
    FaultReason.RECORD_TOO_LARGE: "Raise max.message.bytes of the target topic to what the source"
    f" topic allows; it is tried again by itself. {_SKIP}",
    FaultReason.KEY_MISSING: "The target topic is compacted and this record has no key. Set"
    " null_keys: drop-recorded in the rule and restart `sync`, or end compaction of the target"
    " topic."
    f" {_SKIP}",
    FaultReason.TIMESTAMP_REFUSED: "Raise message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms of the target topic, and on brokers before 4.0"
    " message.timestamp.difference.max.ms; it is tried again by itself."
    f" {_SKIP}",
    FaultReason.RECORD_REFUSED: "The target refuses this record. Look at what it says, at the"
    " record, and at the configs of the target topic; it is tried again by itself."
    f" {_SKIP}",
    FaultReason.SOURCE_CORRUPT: "The source's bytes fail their own checksum. They are fetched again"
    " every minute: another replica may hold the right ones. Look at the disks of the broker that"
    " leads the partition. `{resolve} --seek OFFSET` goes on behind them.",
    FaultReason.SOURCE_DENIED: "Grant the fleet READ on the source topic. It is tried again by"
    " itself.",
    FaultReason.TARGET_DENIED: "Grant the fleet WRITE on the target topic. It is tried again by"
    " itself.",
    FaultReason.RETENTION_OVERTOOK: "The source deleted records before they were copied; they are"
    " gone there. Find out who else has them. Nothing is skipped without your decision:"
    " `{resolve} --accept-gap {lost}`.",
    FaultReason.SOURCE_TRUNCATED: "The source lost records that were copied already (unclean"
    " election). The copy has more than the source now; decide which side is right."
    " `{resolve} --accept-gap {lost}` goes on where the histories part.",
    FaultReason.SOURCE_RECREATED: "The source topic was deleted and made again. The old copy is"
    " kept; decide whether the new topic belongs into it: `{resolve} --accept-gap {lost}`.",
    FaultReason.SOURCE_MISSING: "The source topic is not there, or the fleet may not DESCRIBE it:"
    " then grant that. If it was deleted for good, list it under `exclude` of its rule and restart"
    " `sync`; the copy stays as it is.",
    FaultReason.TARGET_RECREATED: "The target topic was deleted and made again, so its records are"
    f" missing there. Find out who did it. {_AGAIN_OR_WITHOUT}",
    FaultReason.TARGET_TRUNCATED: "The target lost records that it had acknowledged. Look at its"
    f" brokers: unclean election, lost disks. {_AGAIN_OR_WITHOUT}",
    FaultReason.POSITION_LOST: "Its position is lost, and neither map nor target tell it. Put it"
    " back: `mirrorfleet positions import FILE --target {target}`.",
    FaultReason.QUARANTINED: "The target partition takes nothing: fewer replicas in sync than its"
    " min.insync.replicas, or no leader. When it does again, copying goes on by itself.",
    FaultReason.TARGET_MISSING: "The target topic {copy} is not there. If it was deleted, create it"
    " again with as many partitions; then you are asked whether its records are copied again.",
}
_PARTED: Final = (
    "The source lost records that were copied already (more than one unclean election). Find the"
    " first offset from which on both sides differ (`mirrorfleet inspect`), and go on there:"
    " `{resolve} --seek OFFSET`."
)
"""For SOURCE_TRUNCATED where the histories part at an offset that nobody knows."""
_LOST: Final = re.compile(r"\[([0-9]+), ([0-9]+)\)")
"""The range of source offsets in the text of a loss at the source (`copying.loss`)."""


def advice(fault: str, entry: CatalogPartition) -> str:
    """What to do, by the text of a fault as progress carries it; "" for what is none of ours."""
    found = standing_in(fault)
    try:
        text = _HELP[FaultReason(found[0] if found else "")]
    except ValueError:
        return ""
    lost, link = _LOST.search(fault), entry.link
    if lost is None and found and found[0] == FaultReason.SOURCE_TRUNCATED:
        text = _PARTED
    return text.format(
        resolve=f"mirrorfleet resolve {entry.source} --target {link.target} --from {link.source}",
        lost=f"{lost[1]}..{lost[2]}" if lost else "FIRST..END",
        target=link.target,
        copy=entry.target_topic,
    )
