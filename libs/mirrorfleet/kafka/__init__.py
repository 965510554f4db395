"""Brokers: connections, authentication, lanes that fetch and produce, coordinators, admin.

Ways to read a control topic. Some go on at the log's new begin where records were deleted under
them; the others raise OFFSET_OUT_OF_RANGE, for what they missed must be known:

    reader                         from              to              goes on  for
    control.ControlTail            the begin         for ever        yes      catalog, heartbeats
    control_following.TopicTail    begin, or time    for ever        yes      people, requests
    control_tailing.PartitionTail  an offset         for ever        no       the map, releases
    control_reading.read_up_to     begin, or offset  a known record  no       a slot being taken
    control_reading.read_below     the begin         an end          no       who writes behind it
    stored.committed_records       an offset         an end          no       commands, the map

The first one reads through aiokafka, the others with the wire client from each leader.
"""
