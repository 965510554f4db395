"""`make demo`: two real regions, both fleets, live traffic both ways, judged; `make demo-down`.

Works as a user would, through the `mirrorfleet` command. `plan` is pure: names and topics;
`detached` starts and ends processes that outlive the demo; `checks` is what it shows; `__main__`
the order of it all.
"""
