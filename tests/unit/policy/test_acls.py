"""The access that a fleet needs, and nothing beyond it."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import ClusterAlias, FleetName
from mirrorfleet.policy.acls import (
    Grant,
    Operation,
    Resource,
    Service,
    grants,
    kafka_acls_lines,
)
from mirrorfleet.policy.flows import AclPolicy
from tests.unit.policy.conftest import MakeFlow

WEST = FleetName("west")


def short(found: list[Grant]) -> list[str]:
    return [f"{g.cluster} {g.resource} {g.pattern} {g.name} {g.operation}" for g in found]


def test_a_mirror_needs_exactly_this(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("orders", ["orders.*"], "prefix"))
    assert short(grants(WEST, [flow], [Service.MIRROR])) == [
        "east topic literal heartbeats Read",
        "east topic prefixed orders Read",
        "west group literal mirrorfleet.west.mirror Read",
        "west topic literal __mirrorfleet.west.archive Read",
        "west topic literal __mirrorfleet.west.catalog Read",
        "west topic literal __mirrorfleet.west.commands Read",
        "west topic literal __mirrorfleet.west.commands Write",
        "west topic literal __mirrorfleet.west.events Write",
        "west topic literal __mirrorfleet.west.positions Read",
        "west topic literal __mirrorfleet.west.positions Write",
        "west topic literal __mirrorfleet.west.progress Read",
        "west topic literal __mirrorfleet.west.progress Write",
        "west topic literal __mirrorfleet.west.segments Read",
        "west topic literal __mirrorfleet.west.segments Write",
        "west topic literal __mirrorfleet.west.slots Describe",
        "west topic literal east.heartbeats DescribeConfigs",
        "west topic literal east.heartbeats Read",
        "west topic literal east.heartbeats Write",
        "west topic prefixed east.orders DescribeConfigs",
        "west topic prefixed east.orders Read",
        "west topic prefixed east.orders Write",
        "west transactional-id prefixed mirrorfleet.west. Write",
    ]


def test_a_mirror_reads_which_batches_the_fleet_before_traced_only_where_it_joins_them(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("east west", ("orders", ["orders"], "prefix"))
    without = grants(WEST, [flow], [Service.MIRROR])
    traced = {ClusterAlias("east"): FleetName("back")}

    more = grants(WEST, [flow], [Service.MIRROR], traced=traced)

    assert short([each for each in more if each not in without]) == [
        "east topic literal __mirrorfleet.back.progress Read"
    ]
    assert grants(WEST, [flow], [Service.SYNC], traced=traced) == grants(
        WEST, [flow], [Service.SYNC]
    )


def test_a_sync_needs_exactly_this(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("orders", ["orders"], "prefix"))
    other = {ClusterAlias("east"): FleetName("back")}
    assert short(grants(WEST, [flow], [Service.SYNC], other_fleets=other)) == [
        "east topic literal __mirrorfleet.back.catalog Read",
        "east topic literal heartbeats Describe",
        "east topic literal heartbeats DescribeConfigs",
        "east topic literal orders Describe",
        "east topic literal orders DescribeConfigs",
        "west group literal mirrorfleet.west.sync Read",
        "west topic literal __mirrorfleet.west.catalog Read",
        "west topic literal __mirrorfleet.west.catalog Write",
        "west topic literal __mirrorfleet.west.commands Read",
        "west topic literal __mirrorfleet.west.events Write",
        "west topic literal __mirrorfleet.west.slots Describe",
        "west topic literal east.heartbeats Alter",
        "west topic literal east.heartbeats AlterConfigs",
        "west topic literal east.heartbeats Create",
        "west topic literal east.heartbeats DescribeConfigs",
        "west topic literal east.orders Alter",
        "west topic literal east.orders AlterConfigs",
        "west topic literal east.orders Create",
        "west topic literal east.orders DescribeConfigs",
        "west topic prefixed __mirrorfleet.west. Alter",
        "west topic prefixed __mirrorfleet.west. Create",
        "west topic prefixed __mirrorfleet.west. DescribeConfigs",
        "west transactional-id literal mirrorfleet.west.sync Write",
    ]


def test_a_checkpoint_needs_exactly_this(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("orders", ["orders"], "prefix"), groups=("billing",))
    assert short(grants(WEST, [flow], [Service.CHECKPOINT])) == [
        "east group literal billing Describe",
        "east topic literal orders Describe",
        "east topic literal west.checkpoints.internal Read",
        "west group literal billing Read",
        "west group literal mirrorfleet.west.checkpoint Read",
        "west topic literal __mirrorfleet.west.archive Read",
        "west topic literal __mirrorfleet.west.archive Write",
        "west topic literal __mirrorfleet.west.catalog Read",
        "west topic literal __mirrorfleet.west.segments Delete",
        "west topic literal __mirrorfleet.west.segments Read",
        "west topic literal __mirrorfleet.west.slots Describe",
        "west topic literal east.checkpoints.internal Create",
        "west topic literal east.checkpoints.internal Read",
        "west topic literal east.checkpoints.internal Write",
        "west topic literal east.orders Read",
        "west topic literal mm2-offset-syncs.east.internal Create",
        "west topic literal mm2-offset-syncs.east.internal Write",
    ]


def test_a_console_reads_what_the_fleet_told_and_only_describes_the_rest(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("east west", ("orders", ["orders.*"], "prefix"), groups=(".*",))
    assert short(grants(WEST, [flow], [Service.CONSOLE])) == [
        "east group literal * Describe",
        "east topic prefixed orders Describe",
        "west group literal * Describe",
        "west topic prefixed __mirrorfleet.west. Read",
        "west topic prefixed east.orders Describe",
    ]


def test_the_spark_jobs_need_exactly_this(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("orders", ["orders"], "prefix"))
    control = "west topic literal __mirrorfleet.west"
    assert short(grants(WEST, [flow], [Service.SPARK])) == [
        "east topic literal heartbeats Read",
        "east topic literal orders Read",
        f"{control}.archive Read",
        f"{control}.archive Write",
        f"{control}.catalog Read",
        f"{control}.events Read",
        f"{control}.positions Read",
        f"{control}.reports Write",
        f"{control}.samples Read",
        f"{control}.segments Delete",
        f"{control}.segments Read",
        "west topic literal east.heartbeats Read",
        "west topic literal east.orders Read",
    ]


def test_no_service_may_write_or_create_or_alter_at_a_source(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("all", [".*"], "prefix"), groups=(".*",))
    found = [grant for grant in grants(WEST, [flow], Service) if grant.cluster == "east"]
    assert {grant.operation for grant in found} == {
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    }


def test_identity_naming_writes_the_source_names(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("r", ["orders", "sales.*"], "identity"))
    written = [g for g in grants(WEST, [flow], [Service.MIRROR]) if g.operation is Operation.WRITE]
    names = [(g.pattern.value, g.name) for g in written if not g.name.startswith("__")]
    assert names == [
        ("literal", "east.heartbeats"),
        ("literal", "orders"),
        ("prefixed", "sales"),
        ("prefixed", "mirrorfleet.west."),
    ]


def test_a_pattern_without_a_fixed_start_needs_all_topics(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("r", [".*", "orders.*", "x"], "prefix"))
    found = grants(WEST, [flow], [Service.MIRROR])
    assert [(g.pattern.value, g.name) for g in found if g.cluster == "east"] == [("literal", "*")]
    data = {g.operation for g in found if g.name == "east."}
    assert data == {Operation.DESCRIBE_CONFIGS, Operation.READ, Operation.WRITE}


def test_groups_of_others_are_set_only_by_the_checkpoint_service(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("r", ["t"], "prefix"), groups=("app-.*",))
    groups = [g for g in grants(WEST, [flow], Service) if g.resource == "group"]
    found = [g for g in groups if not g.name.startswith("mirrorfleet.")]
    assert [(g.cluster, g.service.value, g.name, g.operation.value) for g in found] == [
        ("east", "checkpoint", "app-", "Describe"),
        ("east", "console", "app-", "Describe"),
        ("west", "checkpoint", "app-", "Read"),
        ("west", "console", "app-", "Describe"),
    ]


def test_lines_are_ready_to_paste_and_leave_out_what_is_implied(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("r", ["t"], "prefix"))
    found = grants(WEST, [flow], [Service.MIRROR, Service.SYNC])
    east = [grant for grant in found if grant.cluster == "east"]
    line = kafka_acls_lines(east, principal="User:it's", host="*", bootstrap="h:1")[-1]
    assert line == (
        "kafka-acls.sh --bootstrap-server h:1 --command-config admin.properties --add"
        " --allow-principal 'User:it'\\''s' --allow-host '*'"
        " --operation DescribeConfigs --operation Read --topic 't'"
        " --resource-pattern-type literal"
    )


def test_heartbeats_of_the_whole_way_are_granted_though_no_pattern_names_them(
    make_flow: MakeFlow,
) -> None:
    into_c = make_flow("b c", ("r", ["orders"], "prefix"))
    estate = [make_flow("a b", ("r", ["orders"], "prefix")), into_c]
    found = grants(FleetName("c"), [into_c], [Service.MIRROR], estate=estate)
    beats = list(dict.fromkeys(g.name for g in found if g.name.endswith("heartbeats")))
    assert beats == ["a.heartbeats", "heartbeats", "b.a.heartbeats", "b.heartbeats"]


def test_a_heartbeat_service_needs_exactly_this(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("orders", ["orders.*"], "prefix"))
    assert short(grants(WEST, [flow], [Service.HEARTBEAT])) == [
        "west group literal mirrorfleet.west.heartbeat Read",
        "west topic literal __mirrorfleet.west.slots Describe",
        "west topic literal heartbeats Create",
        "west topic literal heartbeats Write",
    ]


def test_heartbeats_on_a_source_are_written_there_and_not_on_the_target(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("east west", ("orders", ["orders.*"], "prefix"))
    beaten = frozenset({ClusterAlias("east")})
    assert short(grants(WEST, [flow], [Service.HEARTBEAT], beaten=beaten)) == [
        "east topic literal heartbeats Create",
        "east topic literal heartbeats Write",
        "west group literal mirrorfleet.west.heartbeat Read",
        "west topic literal __mirrorfleet.west.slots Describe",
    ]
    mirror = [Service.MIRROR]
    assert grants(WEST, [flow], mirror, beaten=beaten) == grants(WEST, [flow], mirror)


def test_heartbeats_that_would_go_back_are_not_granted(make_flow: MakeFlow) -> None:
    flows = [make_flow(link, ("r", ["t"], "prefix")) for link in ("east west", "west east")]
    found = grants(WEST, flows[:1], [Service.MIRROR], estate=flows)
    assert list(dict.fromkeys(g.name for g in found if g.name.endswith("heartbeats"))) == [
        "heartbeats",
        "east.heartbeats",
    ]


def test_who_follows_acls_may_see_them_at_the_source_and_change_them_at_the_target(
    make_flow: MakeFlow,
) -> None:
    flow = replace(make_flow("east west", ("all", ["orders"], "prefix")), acls=AclPolicy.MIRROR)

    found = grants(WEST, [flow], [Service.SYNC, Service.MIRROR])

    wanted = [each for each in found if each.resource is Resource.CLUSTER]
    assert [(each.cluster, each.service, each.operation) for each in wanted] == [
        ("east", Service.SYNC, Operation.DESCRIBE),
        ("west", Service.SYNC, Operation.ALTER),
    ]
    (line,) = kafka_acls_lines(wanted[:1], principal="User:a", host="*", bootstrap="h:1")
    assert line.endswith("--operation Describe --cluster")


def test_who_ignores_acls_needs_no_right_to_the_cluster(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("all", ["orders"], "prefix"))

    found = grants(WEST, [flow], [Service.SYNC])

    assert Resource.CLUSTER not in {each.resource for each in found}
