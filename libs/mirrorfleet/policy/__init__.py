"""Pure decisions on names: what is copied, under which name, by whom, with which access."""
