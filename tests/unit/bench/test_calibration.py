from __future__ import annotations

import pytest

from tests.bench.__main__ import main
from tests.bench.calibration import per_core, sentences
from tests.bench.rows import Row


def row(system: str) -> Row:
    return Row(
        workload="1k-plain",
        delivery="exactly-once",
        system=system,
        kafka="4.3.0",
        cpu_s_per_gb=1.25,
        records_per_core_s=800_000.0,
        src_broker_cpu_s_per_gb=2.0,
        dst_broker_cpu_s_per_gb=4.0,
    )


def test_what_a_core_copies_comes_from_the_row_of_the_fleet() -> None:
    assert per_core([row("mm2"), row("fleet")]) == {
        "1k-plain": {
            "mb_per_core_s": 800.0,
            "records_per_core_s": 800_000,
            "source_core_s_per_mb": 0.002,
            "target_core_s_per_mb": 0.004,
        }
    }


def test_the_sentence_says_how_many_cores_two_million_records_a_second_take() -> None:
    (said,) = sentences(per_core([row("fleet")]))

    assert said.startswith("1k-plain: 800 MB, 800,000 records a core-second;")
    assert said.endswith(" 2,000,000 records/s take 2.5 cores of copiers")


@pytest.mark.parametrize(
    "elsewhere", [["--security", "sasl_ssl"], ["--rtt", "20"], ["--window", "200000"]]
)
def test_a_calibration_far_away_or_under_tls_is_refused(
    capsys: pytest.CaptureFixture[str], elsewhere: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--calibrate", *elsewhere])

    assert "`size` adds --rtt and --tls" in capsys.readouterr().err
